// SPDX-License-Identifier: Apache-2.0
#include "base/shipped.h"

#include <memory>

namespace shardplan {

std::vector<ShippedFile> shipped_files(std::string_view folder) {
  std::vector<ShippedFile> files;
  for (const ShippedFile& file : shipped_files()) {
    if (file.path.substr(0, file.path.find('/')) == folder) {
      files.push_back(file);
    }
  }
  return files;
}

std::string shipped_name(const ShippedFile& file) {
  const std::string_view stem = file.path.substr(0, file.path.rfind('.'));
  return std::string(stem.substr(stem.rfind('/') + 1));
}

std::vector<std::string> shipped_names(std::string_view folder) {
  std::vector<std::string> names;
  for (const ShippedFile& file : shipped_files(folder)) {
    names.push_back(shipped_name(file));
  }
  return names;
}

SourcePtr find_shipped(std::string_view folder, std::string_view name,
                       Diagnostics& diags) {
  for (const ShippedFile& file : shipped_files(folder)) {
    if (shipped_name(file) != name) continue;
    auto source = std::make_shared<SourceFile>(
        "rules/" + std::string(file.path),
        std::make_shared<TextBytes<std::string_view>>(file.text));
    diags.add_source(source);
    return source;
  }
  return nullptr;
}

}  // namespace shardplan
