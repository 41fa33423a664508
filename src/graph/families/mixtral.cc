// SPDX-License-Identifier: Apache-2.0
// mixtral: Mistral's attention, experts in every layer. w1 is gate, w3 up and
// w2 down; softmax is over all experts, the chosen ones' shares are brought to
// 1 (Jiang et al., "Mixtral of Experts", 2024).
#include "graph/decoder.h"
#include "graph/experts.h"
#include "graph/families/families.h"

namespace shardplan {
namespace {

// transformers 5 names the same experts as other models do.
constexpr std::string_view kOld = "block_sparse_moe";
constexpr std::string_view kNew = "mlp";

std::optional<ModelConfig> complete(const FamilyInput& input,
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

std::optional<GraphDescription> describe(const FamilyInput& input,
                                         Diagnostics& diags) {
  const auto config = complete(input, diags);
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
  family.complete = complete;
  family.describe = describe;
  return family;
}

}  // namespace shardplan
