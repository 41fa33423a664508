// SPDX-License-Identifier: Apache-2.0
// llama, mistral, qwen2 and qwen3: one shape of layer, told apart by biases
// and by norms of the heads of q and k.
#include "io/formats/hf_families/decoder.h"

namespace shardplan {
namespace {

struct Dense {
  AttentionBias attention_bias;
  bool mlp_bias = false;
  bool head_norms = false;
};

void write_dense(const HfFamily& family, const Dense& dense,
                 ConfigReader& config, TensorWriter& out) {
  const Decoder decoder = read_decoder(family, config);
  if (!out.begin(decoder.layers, 16)) return;
  out.embedding("model.embed_tokens", decoder.vocab, decoder.hidden);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string at = layer_name(i);
    write_attention(at + "self_attn.", decoder, dense.attention_bias, out);
    if (dense.head_norms) {
      out.norm(at + "self_attn.q_norm", decoder.head_dim);
      out.norm(at + "self_attn.k_norm", decoder.head_dim);
    }
    write_mlp(at + "mlp.", decoder.hidden, decoder.intermediate, dense.mlp_bias,
              out);
    out.norm(at + "input_layernorm", decoder.hidden);
    out.norm(at + "post_attention_layernorm", decoder.hidden);
  }
  out.norm("model.norm", decoder.hidden);
  write_head(decoder, "", out);
}

}  // namespace

void write_llama(const HfFamily& family, ConfigReader& config,
                 TensorWriter& out) {
  const bool bias = config.flag("attention_bias", false);
  const bool mlp_bias = config.flag("mlp_bias", false);
  write_dense(family, {{bias, bias}, mlp_bias, false}, config, out);
}

void write_mistral(const HfFamily& family, ConfigReader& config,
                   TensorWriter& out) {
  write_dense(family, {}, config, out);
}

void write_qwen2(const HfFamily& family, ConfigReader& config,
                 TensorWriter& out) {
  write_dense(family, {{true, false}, false, false}, config, out);
}

void write_qwen3(const HfFamily& family, ConfigReader& config,
                 TensorWriter& out) {
  const bool bias = config.flag("attention_bias", false);
  write_dense(family, {{bias, bias}, false, true}, config, out);
}

}  // namespace shardplan
