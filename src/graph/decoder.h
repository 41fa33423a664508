// SPDX-License-Identifier: Apache-2.0
// Decoders in the shape of Llama: norm, attention with rotary positions,
// residual, norm, MLP, residual; told apart by norms of the heads, biases, and
// by what the MLP is.
//
// Values of layer i are `layers.i.attn.*`, `layers.i.mlp.*` and
// `layers.i.residual`; then `norm` and `logits`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/family.h"
#include "graph/model_writer.h"

namespace shardplan {

// Sizes of a decoder with a dense MLP, and the defaults of LlamaConfig.
FamilySizes decoder_sizes(std::string_view family);

// Names of a decoder without its MLP (Family::marks, Family::foreign).
std::vector<std::string_view> decoder_marks();
std::vector<std::string_view> decoder_foreign();

// Writes the MLP of a layer: of what input, under what name; its output is
// [batch, length, hidden].
using WriteMlp = std::function<std::string(ModelWriter& out, int64_t layer,
                                           const std::string& x)>;

// Down(act(gate x) * up x), as in Shazeer, "GLU Variants", 2020.
std::string write_dense_mlp(ModelWriter& out, int64_t layer,
                            const std::string& x);

// `config` is complete.
std::optional<GraphDescription> write_decoder(const FamilyInput& input,
                                              const ModelConfig& config,
                                              std::string_view family,
                                              const WriteMlp& mlp,
                                              Diagnostics& diags);

// Attention over heads, as families of models write it.
//
// Projections [batch, length, heads * head_dim] are cut into heads. Queries of
// grouped attention are [batch, length, kv_heads, groups, head_dim], a head
// being kv_head * groups + group, so that a shard of query heads reads its own
// KV heads (Ainslie et al., "GQA", 2023); keys and values are [batch, length,
// kv_heads, head_dim].

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

// A mixture of experts: a router chooses experts for every token, tokens are
// brought to their experts, and what these say is added up by weight (Shazeer
// et al., "Outrageously Large Neural Networks", 2017).
//
// Weights of experts are stacked ([experts, ..], whole experts on devices of
// the axis EXPERT) or a parameter per expert; gate and up may be one matrix.

struct ExpertNames {
  std::string router;   // "layers.0.mlp.gate"
  std::string experts;  // "layers.0.mlp.experts"
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};

// `x` is [batch, length, hidden], and so is the result. Values are named
// `at`.router, `at`.choices, ..; the result is `at`.output.
std::string write_experts(ModelWriter& out, const ExpertNames& names,
                          int64_t intermediate, const std::string& at,
                          const std::string& x);

}  // namespace shardplan
