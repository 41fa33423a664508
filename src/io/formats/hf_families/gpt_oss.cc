// SPDX-License-Identifier: Apache-2.0
// gpt_oss: experts stacked in one tensor, biases everywhere, a sink per head.
//
// As published the experts are MXFP4: a block is 32 values of 4 bits, stored
// as 16 bytes, with one exponent byte as its scale. Blocks run along the
// contracted dimension, which for this the checkpoint stores last; the
// unquantised tensors are stored [expert, in, out]. The scales are half of the
// weight's encoding, so they are placed like parameters.
#include "io/formats/hf_families/decoder.h"

namespace shardplan {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kBlockBytes = 16;

struct StackedLinear {
  int64_t experts = 0;
  int64_t in = 0;
  int64_t out = 0;
};

void write_stacked(const std::string& name, const StackedLinear& linear,
                   bool mxfp4, TensorWriter& out) {
  const auto [experts, in_size, out_size] = linear;
  if (mxfp4) {
    const int64_t blocks = in_size / kBlock;
    out.tensor(name + "_blocks", DType::U8,
               {experts, out_size, blocks, kBlockBytes});
    out.tensor(name + "_scales", DType::U8, {experts, out_size, blocks});
  } else {
    out.tensor(name, {experts, in_size, out_size});
  }
  out.tensor(name + "_bias", {experts, out_size});
}

// Whether the experts are MXFP4; SP009 for what would change the tensors.
bool read_mxfp4(const Decoder& decoder, ConfigReader& config) {
  if (!config.find("quantization_config")) return false;
  auto quantization = config.section("quantization_config");
  if (!quantization) return false;
  const auto kept = quantization->find("modules_to_not_convert");
  for (size_t i = 0; kept && i < kept->size(); ++i) {
    if (kept->item(i).text().find("experts") == std::string_view::npos) {
      continue;
    }
    quantization->refuse("modules_to_not_convert",
                         "experts that are kept from MXFP4 are not known");
  }
  if (decoder.hidden % kBlock != 0 || decoder.intermediate % kBlock != 0) {
    config.refuse("quantization_config",
                  "sizes are not a multiple of an MXFP4 block of 32");
  }
  return true;
}

}  // namespace

void write_gpt_oss(const HfFamily& family, ConfigReader& config,
                   TensorWriter& out) {
  const Decoder decoder = read_decoder(family, config);
  const int64_t experts = config.count("num_local_experts", 1);
  const bool bias = config.flag("attention_bias", true);
  const bool mxfp4 = read_mxfp4(decoder, config);
  if (!out.begin(decoder.layers, 19)) return;
  const StackedLinear up{experts, decoder.hidden, 2 * decoder.intermediate};
  const StackedLinear down{experts, decoder.intermediate, decoder.hidden};
  out.embedding("model.embed_tokens", decoder.vocab, decoder.hidden);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string at = layer_name(i);
    out.tensor(at + "self_attn.sinks", {decoder.heads});
    write_attention(at + "self_attn.", decoder, {bias, bias}, out);
    out.linear(at + "mlp.router", experts, decoder.hidden, true);
    write_stacked(at + "mlp.experts.gate_up_proj", up, mxfp4, out);
    write_stacked(at + "mlp.experts.down_proj", down, mxfp4, out);
    out.norm(at + "input_layernorm", decoder.hidden);
    out.norm(at + "post_attention_layernorm", decoder.hidden);
  }
  out.norm("model.norm", decoder.hidden);
  write_head(decoder, "", out);
}

}  // namespace shardplan
