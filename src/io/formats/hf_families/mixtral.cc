// SPDX-License-Identifier: Apache-2.0
// mixtral: every layer has experts, each with w1 (gate), w3 (up), w2 (down).
#include "io/formats/hf_families/decoder.h"

namespace shardplan {

void write_mixtral(const HfFamily& family, ConfigReader& config,
                   TensorWriter& out) {
  const Decoder decoder = read_decoder(family, config);
  const int64_t experts = config.count("num_local_experts", 1);
  if (!out.begin(decoder.layers, 7 + 3 * experts)) return;
  out.embedding("model.embed_tokens", decoder.vocab, decoder.hidden);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string at = layer_name(i);
    write_attention(at + "self_attn.", decoder, {}, out);
    out.linear(at + "block_sparse_moe.gate", experts, decoder.hidden);
    for (int64_t e = 0; e < experts; ++e) {
      const std::string expert =
          at + "block_sparse_moe.experts." + std::to_string(e) + ".w";
      out.linear(expert + "1", decoder.intermediate, decoder.hidden);
      out.linear(expert + "2", decoder.hidden, decoder.intermediate);
      out.linear(expert + "3", decoder.intermediate, decoder.hidden);
    }
    out.norm(at + "input_layernorm", decoder.hidden);
    out.norm(at + "post_attention_layernorm", decoder.hidden);
  }
  out.norm("model.norm", decoder.hidden);
  write_head(decoder, "", out);
}

}  // namespace shardplan
