// SPDX-License-Identifier: Apache-2.0
// Files under rules/ that are built into the program: a folder per kind, such as
// "models" and "hardware".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

// The folders of rules sets: for the names of a model type's parameters, for any
// model, for logical axes. No two sets have one name.
inline constexpr std::string_view kRuleFolders[] = {"models", "any", "logical"};

struct ShippedFile {
  std::string_view path;  // "models/llama.yaml"
  std::string_view text;
};
// All of them, sorted by path.
std::span<const ShippedFile> shipped_files();
// Those of one folder.
std::vector<ShippedFile> shipped_files(std::string_view folder);
// "llama" for "models/llama.yaml".
std::string shipped_name(const ShippedFile& file);
std::vector<std::string> shipped_names(std::string_view folder);
// The file as a source, which `diags` keeps; null when there is none. Its text
// is the program's own, not a copy.
SourcePtr find_shipped(std::string_view folder, std::string_view name,
                       Diagnostics& diags);

}  // namespace shardplan
