// SPDX-License-Identifier: Apache-2.0
// The order of a nested tree: keys sorted per level, lists by position.
//
// This is how JAX walks a tree, and it is not the order of the joined names:
// `a/z` comes before `a-b`, since `a` comes before `a-b`. A path is kept as one
// string whose bytes sort that way: each part ends with a zero byte, which is
// escaped within parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"

namespace shardplan {

void append_key(std::string& path, std::string_view key);
void append_index(std::string& path, size_t index);
std::string path_name(std::string_view path);  // parts joined with `/`

struct TreeEntry {
  // A group is any node that is not a tensor, an empty one too.
  enum class Kind : uint8_t { Parameter, Buffer, Group };

  std::string path;
  Kind kind = Kind::Group;
  uint32_t index = 0;  // of the parameter or buffer
  Span where;
};

// Sorts by path. False when two entries have the same path (SP003).
bool sort_entries(std::vector<TreeEntry>& entries, Diagnostics& diags);

// The tensors of `manifest` in the order of the entries.
Manifest reordered(const Manifest& manifest,
                   const std::vector<TreeEntry>& entries);

}  // namespace shardplan
