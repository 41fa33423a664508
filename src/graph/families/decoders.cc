// SPDX-License-Identifier: Apache-2.0
// llama, mistral, qwen2 and qwen3: one shape of layer. Biases and norms of the
// heads are there where the checkpoint has them; windows are the config's. They
// do not differ in what a config may leave out (transformers 4.57).
#include <algorithm>

#include "graph/decoder.h"
#include "graph/families/families.h"

namespace shardplan {
namespace {

constexpr std::string_view kLlama = "llama";
constexpr std::string_view kMistral = "mistral";
constexpr std::string_view kQwen2 = "qwen2";
constexpr std::string_view kQwen3 = "qwen3";

template <const std::string_view& name>
std::optional<ModelConfig> complete(const FamilyInput& input,
                                    Diagnostics& diags) {
  return complete_config(input, decoder_sizes(name), diags);
}

template <const std::string_view& name>
std::optional<GraphDescription> describe(const FamilyInput& input,
                                         Diagnostics& diags) {
  const auto config = complete<name>(input, diags);
  if (!config) return std::nullopt;
  return write_decoder(input, *config, name, write_dense_mlp, diags);
}

template <const std::string_view& name>
Family dense(std::string_view summary,
             std::vector<std::string_view> further_marks) {
  Family family;
  family.name = name;
  family.summary = summary;
  family.marks = decoder_marks();
  for (const std::string_view kernel :
       {"layers.*.mlp.gate_proj.weight", "layers.*.mlp.up_proj.weight",
        "layers.*.mlp.down_proj.weight"}) {
    family.marks.push_back(kernel);
  }
  family.marks.insert(family.marks.end(), further_marks.begin(),
                      further_marks.end());
  family.foreign = decoder_foreign();
  family.foreign.push_back("layers.*.mlp.gate.weight");
  family.complete = complete<name>;
  family.describe = describe<name>;
  return family;
}

}  // namespace

Family llama_family() {
  return dense<kLlama>("Llama 1 to 3 and models of their shape", {});
}

Family mistral_family() {
  return dense<kMistral>("Mistral: Llama with a sliding window", {});
}

Family qwen2_family() {
  return dense<kQwen2>(
      "Qwen 2 and 2.5: Llama with biases of q, k and v",
      {"layers.*.self_attn.q_proj.bias", "layers.*.self_attn.k_proj.bias",
       "layers.*.self_attn.v_proj.bias"});
}

Family qwen3_family() {
  return dense<kQwen3>(
      "Qwen 3: Llama with norms of the heads of q and k",
      {"layers.*.self_attn.q_norm.weight", "layers.*.self_attn.k_norm.weight"});
}

// mixtral: Mistral's attention, experts in every layer. w1 is gate, w3 up and
// w2 down; softmax is over all experts, the chosen ones' shares are brought to
// 1 (Jiang et al., "Mixtral of Experts", 2024).

namespace {

// transformers 5 names the same experts as other models do.
constexpr std::string_view kOld = "block_sparse_moe";
constexpr std::string_view kNew = "mlp";

std::optional<ModelConfig> complete_mixtral(const FamilyInput& input,
                                            Diagnostics& diags) {
  using Where = SizeSource::Where;
  FamilySizes sizes = decoder_sizes("mixtral");
  sizes.norm_epsilon = 1e-5;
  sizes.rope_theta = 1e6;
  sizes.experts_per_token = 2;
  sizes.experts = {
      {"layers.0.block_sparse_moe.gate.weight", "layers.0.mlp.gate.weight"}};
  sizes.intermediate = {{"layers.0.block_sparse_moe.experts.0.w1.weight",
                         "layers.0.block_sparse_moe.experts.w1.weight"}};
  if (input.names.find("layers.0.mlp.experts.down_proj") != nullptr) {
    sizes.intermediate = {{"layers.0.mlp.experts.down_proj"}, Where::Last};
  }
  return complete_config(input, sizes, diags);
}

std::string write_mlp(ModelWriter& out, int64_t layer, const std::string& x) {
  const std::string at = "layers." + std::to_string(layer) + ".";
  const bool old = !out.has(at + "mlp.gate.weight");
  const std::string block = at + std::string(old ? kOld : kNew);
  ExpertNames names{block + ".gate", block + ".experts"};
  if (old) {
    names.gate = "w1";
    names.up = "w3";
    names.down = "w2";
  }
  return write_experts(out, names, out.config().intermediate.value_or(0),
                       at + "mlp", x);
}

std::optional<GraphDescription> describe_mixtral(const FamilyInput& input,
                                                 Diagnostics& diags) {
  const auto config = complete_mixtral(input, diags);
  if (!config) return std::nullopt;
  return write_decoder(input, *config, "mixtral", write_mlp, diags);
}

}  // namespace

Family mixtral_family() {
  Family family;
  family.name = "mixtral";
  family.summary = "Mixtral: experts in every layer";
  family.marks = decoder_marks();
  family.marks.push_back("layers.*.block_sparse_moe.gate.weight");
  family.foreign = decoder_foreign();
  family.complete = complete_mixtral;
  family.describe = describe_mixtral;
  return family;
}

// qwen3_moe: Qwen 3's attention; experts in every `decoder_sparse_step`th layer
// but those of `mlp_only_layers`, a dense MLP in the others.

namespace {

std::optional<ModelConfig> complete_qwen3_moe(const FamilyInput& input,
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

std::string qwen3_moe_write_mlp(ModelWriter& out, int64_t layer,
                                const std::string& x) {
  if (!has_experts(out, layer)) return write_dense_mlp(out, layer, x);
  const std::string at = "layers." + std::to_string(layer) + ".mlp";
  return write_experts(out, {at + ".gate", at + ".experts"},
                       out.config().expert_intermediate.value_or(0), at, x);
}

std::optional<GraphDescription> describe_qwen3_moe(const FamilyInput& input,
                                                   Diagnostics& diags) {
  const auto config = complete_qwen3_moe(input, diags);
  if (!config) return std::nullopt;
  return write_decoder(input, *config, "qwen3_moe", qwen3_moe_write_mlp, diags);
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
  family.complete = complete_qwen3_moe;
  family.describe = describe_qwen3_moe;
  return family;
}

}  // namespace shardplan
