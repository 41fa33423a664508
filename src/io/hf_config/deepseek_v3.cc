// SPDX-License-Identifier: Apache-2.0
// deepseek_v3: latent attention (MLA), dense layers and then experts, layers
// that predict further tokens (MTP), and weights in FP8 blocks.
//
// FP8 stores the linear layers of attention and MLPs as F8_E4M3 with one f32
// scale per block beside them; embedding, norms, routers, MTP's eh_proj and
// the head keep the config's dtype. Scales and the router's correction biases
// are no parameters.
#include <optional>

#include "base/checked.h"
#include "io/hf_config/decoders.h"

namespace shardplan {
namespace {

struct Fp8Block {
  int64_t rows = 0;
  int64_t columns = 0;
};

struct Latent {
  std::optional<int64_t> query_rank;  // none: q is projected in one step
  int64_t kv_rank = 0;
  int64_t nope = 0;
  int64_t rope = 0;
  int64_t value = 0;
  bool bias = false;
};

struct RoutedExperts {
  int64_t count = 0;
  int64_t shared = 0;
  int64_t intermediate = 0;
  int64_t first_layer = 0;
  int64_t step = 1;
  bool correction = true;

  bool in_layer(int64_t layer) const {
    return count > 0 && layer >= first_layer && layer % step == 0;
  }
};

struct Deepseek {
  Decoder decoder;
  Latent latent;
  RoutedExperts experts;
  int64_t mtp_layers = 0;
  std::optional<Fp8Block> block;
};

Latent read_latent(ConfigReader& config) {
  Latent latent;
  const int64_t query_rank = config.size("q_lora_rank", {.null = 0});
  if (query_rank > 0) latent.query_rank = query_rank;
  latent.kv_rank = config.size("kv_lora_rank");
  latent.nope = config.size("qk_nope_head_dim");
  latent.rope = config.size("qk_rope_head_dim");
  latent.value = config.size("v_head_dim");
  latent.bias = config.flag("attention_bias", false);
  return latent;
}

RoutedExperts read_routed_experts(ConfigReader& config) {
  RoutedExperts experts;
  experts.count = config.count("n_routed_experts", 1, {.null = 0});
  experts.shared = config.count("n_shared_experts", 1, {.null = 0});
  experts.intermediate = config.size("moe_intermediate_size");
  experts.first_layer = config.count("first_k_dense_replace", 0);
  experts.step = config.size("moe_layer_freq", {.absent = 1});
  if (const auto method = config.find("topk_method")) {
    experts.correction = method->text() == "noaux_tc";
  }
  return experts;
}

// The blocks of FP8 weights; none when the config is not quantised.
std::optional<Fp8Block> read_fp8(ConfigReader& config) {
  if (!config.find("quantization_config")) return std::nullopt;
  auto fp8 = config.section("quantization_config");
  if (!fp8) return std::nullopt;
  const auto format = fp8->find("fmt");
  if (format && format->text() != "e4m3") {
    fp8->refuse("fmt", "an FP8 format other than `e4m3` is not known");
  }
  const auto kept = fp8->find("modules_to_not_convert");
  if (kept && kept->size() > 0) {
    fp8->refuse("modules_to_not_convert",
                "modules that are kept from FP8 are not known");
  }
  const std::vector<int64_t> sizes = fp8->integers("weight_block_size");
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) {
    return fp8->refuse("weight_block_size",
                       "`weight_block_size` must be two positive sizes");
  }
  return Fp8Block{sizes[0], sizes[1]};
}

// One of the linear layers that FP8 applies to.
void write_linear(const std::string& name, int64_t out_size, int64_t in_size,
                  const std::optional<Fp8Block>& block, TensorWriter& out) {
  if (!block) return out.linear(name, out_size, in_size);
  out.tensor(name + ".weight", DType::F8E4M3, {out_size, in_size});
  out.buffer(
      name + ".weight_scale_inv", DType::F32,
      {ceil_div(out_size, block->rows), ceil_div(in_size, block->columns)});
}

void write_latent_attention(const std::string& at, const Deepseek& model,
                            TensorWriter& out) {
  const Decoder& decoder = model.decoder;
  const Latent& latent = model.latent;
  const std::optional<Fp8Block>& block = model.block;
  const auto biased = [&](const char* name, int64_t rows, int64_t columns) {
    write_linear(at + name, rows, columns, block, out);
    if (latent.bias) out.tensor(at + name + ".bias", {rows});
  };
  const int64_t query = decoder.heads * (latent.nope + latent.rope);
  if (latent.query_rank) {
    biased("q_a_proj", *latent.query_rank, decoder.hidden);
    out.norm(at + "q_a_layernorm", *latent.query_rank);
    write_linear(at + "q_b_proj", query, *latent.query_rank, block, out);
  } else {
    write_linear(at + "q_proj", query, decoder.hidden, block, out);
  }
  biased("kv_a_proj_with_mqa", latent.kv_rank + latent.rope, decoder.hidden);
  out.norm(at + "kv_a_layernorm", latent.kv_rank);
  write_linear(at + "kv_b_proj", decoder.heads * (latent.nope + latent.value),
               latent.kv_rank, block, out);
  biased("o_proj", decoder.hidden, decoder.heads * latent.value);
}

void write_feed_forward(const std::string& at, const Deepseek& model,
                        int64_t intermediate, TensorWriter& out) {
  const int64_t hidden = model.decoder.hidden;
  write_linear(at + "gate_proj", intermediate, hidden, model.block, out);
  write_linear(at + "up_proj", intermediate, hidden, model.block, out);
  write_linear(at + "down_proj", hidden, intermediate, model.block, out);
}

void write_routed_experts(const std::string& at, const Deepseek& model,
                          TensorWriter& out) {
  const RoutedExperts& experts = model.experts;
  for (int64_t e = 0; e < experts.count; ++e) {
    write_feed_forward(at + "experts." + std::to_string(e) + ".", model,
                       experts.intermediate, out);
  }
  out.linear(at + "gate", experts.count, model.decoder.hidden);
  if (experts.correction) {
    out.buffer(at + "gate.e_score_correction_bias", DType::F32,
               {experts.count});
  }
  if (experts.shared > 0) {
    write_feed_forward(at + "shared_experts.", model,
                       experts.shared * experts.intermediate, out);
  }
}

void write_deepseek_layer(int64_t layer, const Deepseek& model,
                          TensorWriter& out) {
  const std::string at = layer_name(layer);
  write_latent_attention(at + "self_attn.", model, out);
  if (model.experts.in_layer(layer)) {
    write_routed_experts(at + "mlp.", model, out);
  } else {
    write_feed_forward(at + "mlp.", model, model.decoder.intermediate, out);
  }
  out.norm(at + "input_layernorm", model.decoder.hidden);
  out.norm(at + "post_attention_layernorm", model.decoder.hidden);
}

// A layer after the last: it joins the embedding of the next token to the
// hidden state, and brings copies of the embedding and of the head.
void write_mtp_layer(int64_t layer, const Deepseek& model, TensorWriter& out) {
  const std::string at = layer_name(layer);
  const Decoder& decoder = model.decoder;
  out.embedding(at + "embed_tokens", decoder.vocab, decoder.hidden);
  out.norm(at + "enorm", decoder.hidden);
  out.norm(at + "hnorm", decoder.hidden);
  out.linear(at + "eh_proj", decoder.hidden, 2 * decoder.hidden);
  write_deepseek_layer(layer, model, out);
  out.norm(at + "shared_head.norm", decoder.hidden);
  out.linear(at + "shared_head.head", decoder.vocab, decoder.hidden);
}

}  // namespace

void write_deepseek_v3(const HfModelType& row, ConfigReader& config,
                       TensorWriter& out) {
  const Deepseek model{
      read_sizes(row, config), read_latent(config), read_routed_experts(config),
      config.count("num_nextn_predict_layers", 0, {.absent = 0, .null = 0}),
      read_fp8(config)};
  const Decoder& decoder = model.decoder;
  if (!out.begin(decoder.layers + model.mtp_layers,
                 40 + 6 * model.experts.count)) {
    return;
  }
  out.embedding("model.embed_tokens", decoder.vocab, decoder.hidden);
  for (int64_t i = 0; i < decoder.layers; ++i)
    write_deepseek_layer(i, model, out);
  for (int64_t i = 0; i < model.mtp_layers; ++i) {
    write_mtp_layer(decoder.layers + i, model, out);
  }
  out.norm("model.norm", decoder.hidden);
  write_head(decoder, "", out);
}

}  // namespace shardplan
