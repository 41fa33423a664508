// SPDX-License-Identifier: Apache-2.0
// Layouts: the semantic axes of the values of a forward pass. Architecture
// files refer to a layout by name: `output = o_proj(joined) as tokens`.
//
// The rules map a semantic axis (BATCH, LENGTH, HEAD, ..) to axes of the mesh;
// a value with a layout is sharded accordingly where it is computed. "" marks a
// dimension that no axis shards.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"

namespace shardplan {

struct ValueLayout {
  std::string_view name;
  std::array<std::string_view, 4> axes;
  size_t rank = 0;
};

// `queries` is for attention without groups and `keys` for several KV heads;
// layout_axes() handles the other cases.
inline constexpr ValueLayout kValueLayouts[] = {
    {"tokens", {"BATCH", "LENGTH", ""}, 3},
    {"intermediate", {"BATCH", "LENGTH", "MLP_INTERMEDIATE"}, 3},
    {"logits", {"BATCH", "LENGTH", "VOCAB"}, 3},
    {"heads", {"BATCH", "LENGTH", "HEAD", ""}, 4},
    {"queries", {"BATCH", "QUERY_LENGTH", "HEAD", "HEAD_DIM"}, 4},
    {"keys", {"BATCH", "KV_LENGTH", "KV_HEAD", "KV_HEAD_DIM"}, 4},
    {"shared_keys", {"BATCH", "KV_LENGTH", ""}, 3},
    {"per_token", {"BATCH", "LENGTH"}, 2},
    {"per_sequence", {"BATCH", ""}, 2},
    {"patches", {"BATCH", "", ""}, 3},
    {"pixels", {"BATCH", "", "", ""}, 4},
};

inline const ValueLayout* find_layout(std::string_view name) {
  return find_named(kValueLayouts, name);
}

// Returns the axes of a layout for a value of `rank` dimensions. Queries of
// grouped attention are [batch, length, kv_heads, group, head_dim]. A single KV
// head cannot be sharded: HEAD then shards the query heads of its group, and
// keys are replicated.
inline std::vector<std::string> layout_axes(const ValueLayout& layout,
                                            size_t rank, int64_t kv_heads) {
  if (layout.name == "queries" && rank == 5) {
    if (kv_heads == 1) return {"BATCH", "QUERY_LENGTH", "", "HEAD", "HEAD_DIM"};
    return {"BATCH", "QUERY_LENGTH", "KV_HEAD", "", "HEAD_DIM"};
  }
  std::vector<std::string> axes(
      layout.axes.begin(),
      layout.axes.begin() + static_cast<std::ptrdiff_t>(layout.rank));
  if (layout.name == "keys" && kv_heads == 1) axes[2] = "";
  return axes;
}

}  // namespace shardplan
