// SPDX-License-Identifier: Apache-2.0
// Shipped files: the files under rules/ that are built into the program, in one
// folder per kind, such as "models" and "hardware".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

// The folders of rule sets: for the parameter names of one model type, for any
// model, and for logical axes. Names are unique across the folders.
inline constexpr std::string_view kRuleFolders[] = {"models", "any", "logical"};

struct ShippedFile {
  std::string_view path;  // "models/llama.yaml"
  std::string_view text;
};
// Returns all files, sorted by path.
std::span<const ShippedFile> shipped_files();
// Returns the files of one folder.
std::vector<ShippedFile> shipped_files(std::string_view folder);
// Returns "llama" for "models/llama.yaml".
std::string shipped_name(const ShippedFile& file);
std::vector<std::string> shipped_names(std::string_view folder);
// Returns the file as a source, which `diags` keeps alive; null if there is
// none. The source refers to the program's own text without copying it.
SourcePtr find_shipped(std::string_view folder, std::string_view name,
                       Diagnostics& diags);

}  // namespace shardplan
