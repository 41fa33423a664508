// SPDX-License-Identifier: Apache-2.0
// qwen3_moe: qwen3's attention; experts in every `decoder_sparse_step`th layer
// but those of `mlp_only_layers`, a dense MLP in the others.
#include <algorithm>
#include <vector>

#include "io/formats/hf_families/decoder.h"

namespace shardplan {
namespace {

struct Experts {
  int64_t count = 0;
  int64_t intermediate = 0;
  int64_t step = 1;
  std::vector<int64_t> dense_layers;

  bool in_layer(int64_t layer) const {
    return count > 0 && (layer + 1) % step == 0 &&
           std::find(dense_layers.begin(), dense_layers.end(), layer) ==
               dense_layers.end();
  }
};

Experts read_experts(ConfigReader& config) {
  Experts experts;
  experts.count = config.count("num_experts", 0);
  experts.intermediate = config.size("moe_intermediate_size");
  experts.step = config.size("decoder_sparse_step", {.absent = 1});
  experts.dense_layers = config.integers("mlp_only_layers");
  return experts;
}

void write_experts(const std::string& at, int64_t hidden,
                   const Experts& experts, TensorWriter& out) {
  out.linear(at + "gate", experts.count, hidden);
  for (int64_t e = 0; e < experts.count; ++e) {
    write_mlp(at + "experts." + std::to_string(e) + ".", hidden,
              experts.intermediate, false, out);
  }
}

}  // namespace

void write_qwen3_moe(const HfFamily& family, ConfigReader& config,
                     TensorWriter& out) {
  const Decoder decoder = read_decoder(family, config);
  const Experts experts = read_experts(config);
  const bool bias = config.flag("attention_bias", false);
  if (!out.begin(decoder.layers, 16 + 3 * experts.count)) return;
  out.embedding("model.embed_tokens", decoder.vocab, decoder.hidden);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string at = layer_name(i);
    write_attention(at + "self_attn.", decoder, {bias, bias}, out);
    out.norm(at + "self_attn.q_norm", decoder.head_dim);
    out.norm(at + "self_attn.k_norm", decoder.head_dim);
    if (experts.in_layer(i)) {
      write_experts(at + "mlp.", decoder.hidden, experts, out);
    } else {
      write_mlp(at + "mlp.", decoder.hidden, decoder.intermediate, false, out);
    }
    out.norm(at + "input_layernorm", decoder.hidden);
    out.norm(at + "post_attention_layernorm", decoder.hidden);
  }
  out.norm("model.norm", decoder.hidden);
  write_head(decoder, "", out);
}

}  // namespace shardplan
