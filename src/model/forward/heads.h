// SPDX-License-Identifier: Apache-2.0
// Attention heads: each query head has its own KV head (MHA), several share one
// (GQA), or all share one (MQA).
//
// Queries of grouped attention are [batch, length, kv_heads, group, head_dim],
// with query head h at kv_heads index h / group, so that a shard of query heads
// reads its own KV heads (Ainslie et al., "GQA", 2023). If there are as many KV
// heads as heads, queries are [batch, length, heads, head_dim]. Keys and values
// are [batch, length, kv_heads, head_dim].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/scope.h"
#include "model/forward/writer.h"

namespace shardplan {

struct HeadSizes {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides `heads`
  int64_t head_dim = 0;  // elements
};

// Returns `heads`, `kv_heads` and `head_dim` of a scope. If the scope has no
// `kv_heads`, it is `heads`. Returns nothing if a size is missing, or `heads`
// is not divisible by `kv_heads`.
std::optional<HeadSizes> head_sizes(const ValueScope& scope);

// Returns the rank of queries that are split into heads: 4, or 5 with groups.
size_t query_rank(const HeadSizes& sizes);

// Writes one of these operations:
//   query_heads(x)           x [batch, length, heads * head_dim], as queries
//   key_heads(x)             x [batch, length, kv_heads * head_dim], as keys
//   attention_scores(q, k)   [batch, heads.., queries, keys]
//   attention_values(w, v)   weights times values, heads side by side:
//                            [batch, length, heads * head_dim]
void write_heads(ForwardWriter& out, std::string_view operation,
                 const HeadSizes& sizes, const std::vector<std::string>& in,
                 std::string result, ValueLabels axes);

}  // namespace shardplan
