// SPDX-License-Identifier: Apache-2.0
// Attention over heads, as families of models write it.
//
// Projections [batch, length, heads * head_dim] are cut into heads. Queries of
// grouped attention are [batch, length, kv_heads, groups, head_dim], a head
// being kv_head * groups + group, so that a shard of query heads reads its own
// KV heads (Ainslie et al., "GQA", 2023); keys and values are [batch, length,
// kv_heads, head_dim].
#pragma once

#include <cstdint>
#include <string>

#include "graph/model_writer.h"

namespace shardplan {

struct HeadSizes {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;

  int64_t groups() const { return heads / kv_heads; }
  // Whether queries have a dimension of groups.
  bool grouped() const { return groups() > 1; }
};

// Sizes of a complete config.
HeadSizes head_sizes(const ModelConfig& config);

Labels query_labels(const HeadSizes& sizes);
Labels key_labels(const HeadSizes& sizes);

// A projection cut into heads; labels are for the last step of each.
std::string query_heads(ModelWriter& out, const HeadSizes& sizes,
                        const std::string& projected, std::string result,
                        Labels axes = {});
std::string key_heads(ModelWriter& out, const HeadSizes& sizes,
                      const std::string& projected, std::string result,
                      Labels axes = {});

struct Attention {
  std::string name;  // of its values: "layers.0.attn"
  std::string query;
  std::string key;
  std::string value;
  bool causal = true;
  int64_t window = 0;  // keys that a query sees, its own among them; 0: all
};

// softmax(query key / sqrt(head_dim)) value, heads side by side: [batch,
// length, heads * head_dim].
std::string attend(ModelWriter& out, const HeadSizes& sizes,
                   const Attention& attention);

}  // namespace shardplan
