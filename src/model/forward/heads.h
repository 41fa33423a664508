// SPDX-License-Identifier: Apache-2.0
// Heads of attention, whether each query head has a KV head of its own (MHA),
// several share one (GQA) or all share one (MQA).
//
// Queries of grouped attention are [batch, length, kv_heads, group, head_dim],
// query head h being kv_heads index h / group, so that a shard of query heads
// reads its own KV heads (Ainslie et al., "GQA", 2023). Where heads and KV
// heads are as many, queries are [batch, length, heads, head_dim]. Keys and
// values are [batch, length, kv_heads, head_dim].
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

// `heads`, `kv_heads` and `head_dim` of a scope; `kv_heads` is `heads` where
// the scope has none. Empty where one is missing or they do not divide.
std::optional<HeadSizes> head_sizes(const ValueScope& scope);

// Dimensions of queries cut into heads: 4, or 5 with groups.
size_t query_rank(const HeadSizes& sizes);

// One of these operations on values:
//   query_heads(x)           x [batch, length, heads * head_dim], as queries
//   key_heads(x)             x [batch, length, kv_heads * head_dim], as keys
//   attention_scores(q, k)   [batch, heads.., queries, keys]
//   attention_values(w, v)   weights times values, heads side by side:
//                            [batch, length, heads * head_dim]
void write_heads(ForwardWriter& out, std::string_view operation,
                 const HeadSizes& sizes, const std::vector<std::string>& in,
                 std::string result, ValueLabels axes);

}  // namespace shardplan
