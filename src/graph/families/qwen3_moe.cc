// SPDX-License-Identifier: Apache-2.0
// qwen3_moe: Qwen 3's attention; experts in every `decoder_sparse_step`th layer
// but those of `mlp_only_layers`, a dense MLP in the others.
#include <algorithm>

#include "graph/decoder.h"
#include "graph/experts.h"
#include "graph/families/families.h"

namespace shardplan {
namespace {

std::optional<ModelConfig> complete(const FamilyInput& input,
                                    Diagnostics& diags) {
  using Where = SizeSource::Where;
  FamilySizes sizes = decoder_sizes("qwen3_moe");
  sizes.experts_per_token = 8;
  sizes.normalise_top_k = false;
  const ParameterNames& names = input.names;
  // The first layer that has what is looked for; which one, only a config says.
  // A number in a name may be any; complete_config refuses those too large.
  const int64_t layers = std::min(names.layers("layers"), kMaxModelLayers);
  const auto first = [&](std::string_view name) {
    for (int64_t i = 0; i < layers; ++i) {
      std::string at = "layers." + std::to_string(i) + "." + std::string(name);
      if (names.find(at) != nullptr) return at;
    }
    return std::string();
  };
  const std::string gate = first("mlp.gate.weight");
  const std::string dense = first("mlp.up_proj.weight");
  const std::string one = first("mlp.experts.0.up_proj.weight");
  const std::string stacked = first("mlp.experts.up_proj.weight");
  const std::string fused = first("mlp.experts.down_proj");
  sizes.experts = {{gate}};
  sizes.intermediate = {{dense}};
  sizes.expert_intermediate = {{one, stacked}};
  if (!fused.empty()) sizes.expert_intermediate = {{fused}, Where::Last};
  return complete_config(input, sizes, diags);
}

// Without a config the names tell which layers have experts.
bool has_experts(const ModelWriter& out, int64_t layer) {
  const ModelConfig& config = out.config();
  if (config.where || !config.model_type.empty()) {
    return (layer + 1) % *config.sparse_step == 0 &&
           std::find(config.dense_layers.begin(), config.dense_layers.end(),
                     layer) == config.dense_layers.end();
  }
  return out.has("layers." + std::to_string(layer) + ".mlp.gate.weight");
}

std::string write_mlp(ModelWriter& out, int64_t layer, const std::string& x) {
  if (!has_experts(out, layer)) return write_dense_mlp(out, layer, x);
  const std::string at = "layers." + std::to_string(layer) + ".mlp";
  return write_experts(out, {at + ".gate", at + ".experts"},
                       out.config().expert_intermediate.value_or(0), at, x);
}

std::optional<GraphDescription> describe(const FamilyInput& input,
                                         Diagnostics& diags) {
  const auto config = complete(input, diags);
  if (!config) return std::nullopt;
  return write_decoder(input, *config, "qwen3_moe", write_mlp, diags);
}

}  // namespace

Family qwen3_moe_family() {
  Family family;
  family.name = "qwen3_moe";
  family.summary = "Qwen 3 with experts, perhaps not in every layer";
  family.marks = decoder_marks();
  for (const std::string_view mark :
       {"layers.*.self_attn.q_norm.weight", "layers.*.self_attn.k_norm.weight",
        "layers.*.mlp.gate.weight"}) {
    family.marks.push_back(mark);
  }
  family.foreign = decoder_foreign();
  family.complete = complete;
  family.describe = describe;
  return family;
}

}  // namespace shardplan
