// SPDX-License-Identifier: Apache-2.0
// llama, mistral, qwen2 and qwen3: one shape of layer. Biases and norms of the
// heads are there where the checkpoint has them; windows are the config's. They
// do not differ in what a config may leave out (transformers 4.57).
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

}  // namespace shardplan
