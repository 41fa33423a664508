// SPDX-License-Identifier: Apache-2.0
// Paths as text: splitting off the directory or the file name, and joining.
#pragma once

#include <string>
#include <string_view>

namespace shardplan {

// "models/a.json" -> "models", "/a.json" -> "/", "a.json" -> "".
inline std::string directory_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return "";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

// "models/a.json" -> "a.json"
inline std::string file_name_of(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

inline std::string join_path(std::string_view directory,
                             std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path += name;
}

}  // namespace shardplan
