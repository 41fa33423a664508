// SPDX-License-Identifier: Apache-2.0
#include "graph/attention.h"

#include <cmath>
#include <utility>

namespace shardplan {

HeadSizes head_sizes(const ModelConfig& config) {
  return {*config.heads, *config.kv_heads, *config.head_dim};
}

Labels query_labels(const HeadSizes& sizes) {
  if (!sizes.grouped()) return {"BATCH", "QUERY_LENGTH", "HEAD", "HEAD_DIM"};
  // One KV head for all queries cannot be shared out; its groups can.
  if (sizes.kv_heads == 1) {
    return {"BATCH", "QUERY_LENGTH", "", "HEAD", "HEAD_DIM"};
  }
  return {"BATCH", "QUERY_LENGTH", "KV_HEAD", "", "HEAD_DIM"};
}

Labels key_labels(const HeadSizes& sizes) {
  return {"BATCH", "KV_LENGTH", sizes.kv_heads == 1 ? "" : "KV_HEAD",
          "KV_HEAD_DIM"};
}

std::string query_heads(ModelWriter& out, const HeadSizes& sizes,
                        const std::string& projected, std::string result,
                        Labels axes) {
  const ForwardPass& pass = out.input().pass;
  Shape shape = {pass.batch, pass.length, sizes.heads, sizes.head_dim};
  if (sizes.grouped()) {
    shape = {pass.batch, pass.length, sizes.kv_heads, sizes.groups(),
             sizes.head_dim};
  }
  return out.op("reshape", {projected}, std::move(result), {{"shape", shape}},
                std::move(axes));
}

std::string key_heads(ModelWriter& out, const HeadSizes& sizes,
                      const std::string& projected, std::string result,
                      Labels axes) {
  const ForwardPass& pass = out.input().pass;
  const Shape shape = {pass.batch, pass.length, sizes.kv_heads, sizes.head_dim};
  return out.op("reshape", {projected}, std::move(result), {{"shape", shape}},
                std::move(axes));
}

std::string attend(ModelWriter& out, const HeadSizes& sizes,
                   const Attention& attention) {
  const std::string& at = attention.name;
  const bool grouped = sizes.grouped();
  const std::string products =
      out.op("einsum", {attention.query, attention.key}, at + ".products",
             {{"equation", grouped ? "bqhgd,bkhd->bhgqk" : "bqhd,bkhd->bhqk"}});
  std::string scores = out.op("scale", {products}, at + ".scores",
                              {{"by", 1 / std::sqrt(number(sizes.head_dim))}});
  if (attention.causal) {
    GivenAttributes attributes;
    if (attention.window > 0) {
      attributes.emplace_back("window", number(attention.window));
    }
    scores =
        out.op("causal_mask", {scores}, at + ".masked", std::move(attributes));
  }
  const std::string weights = out.op("softmax", {scores}, at + ".weights");
  const std::string mixed =
      out.op("einsum", {weights, attention.value}, at + ".mixed",
             {{"equation", grouped ? "bhgqk,bkhd->bqhgd" : "bhqk,bkhd->bqhd"}});
  const ForwardPass& pass = out.input().pass;
  return out.op("reshape", {mixed}, at + ".joined",
                {{"shape", Shape{pass.batch, pass.length,
                                 sizes.heads * sizes.head_dim}}});
}

}  // namespace shardplan
