// SPDX-License-Identifier: Apache-2.0

#include "io/hf_config/decoders.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"
#include "io/hf_config/model_type.h"

namespace shardplan {
namespace {

// A default as numbers, `derived` standing for what the other sizes give.
Fallback fallback_of(const HeadDefault& rule, std::optional<int64_t> derived) {
  const auto value = [&](int64_t taken) -> std::optional<int64_t> {
    if (taken == kRefused) return std::nullopt;
    return taken == kDerived ? derived : taken;
  };
  return {value(rule.absent), value(rule.null)};
}

// hidden_size over heads, when that is a whole number.
std::optional<int64_t> quotient(const Decoder& decoder) {
  if (decoder.hidden % decoder.heads != 0) return std::nullopt;
  return decoder.hidden / decoder.heads;
}

}  // namespace

Decoder read_sizes(const HfModelType& row, ConfigReader& config,
                   const Fallback& vocab) {
  Decoder decoder;
  decoder.vocab = config.size("vocab_size", vocab);
  decoder.hidden = config.size("hidden_size");
  decoder.intermediate = config.size("intermediate_size");
  decoder.layers = config.count("num_hidden_layers", 1);
  decoder.heads = config.size("num_attention_heads",
                              fallback_of({row.heads, kRefused}, {}));
  decoder.tied = config.flag("tie_word_embeddings", row.tied);
  return decoder;
}

Decoder read_decoder(const HfModelType& row, ConfigReader& config,
                     const Fallback& vocab) {
  Decoder decoder = read_sizes(row, config, vocab);
  if (!config.ok()) return decoder;
  decoder.kv_heads = config.size("num_key_value_heads",
                                 fallback_of(row.kv_heads, decoder.heads));
  const std::optional<int64_t> derived = quotient(decoder);
  if (!derived && !config.find("head_dim") && row.head_dim.absent == kDerived) {
    config
        .refuse("hidden_size",
                "without `head_dim`, `hidden_size` must be a multiple of "
                "`num_attention_heads`")
        .fact("hidden size " + count_text(decoder.hidden) + ", " +
              count_text(decoder.heads) + " heads");
    return decoder;
  }
  decoder.head_dim =
      config.size("head_dim", fallback_of(row.head_dim, derived));
  if (config.ok() && decoder.heads % decoder.kv_heads != 0) {
    config
        .refuse("num_key_value_heads",
                "`num_attention_heads` must be a multiple of "
                "`num_key_value_heads`")
        .fact(count_text(decoder.heads) + " heads, " +
              count_text(decoder.kv_heads) + " KV heads");
  }
  return decoder;
}

std::string layer_name(int64_t layer, const std::string& root) {
  return root + "layers." + std::to_string(layer) + ".";
}

void write_attention(const std::string& at, const Decoder& decoder,
                     AttentionBias bias, TensorWriter& out) {
  out.linear(at + "q_proj", decoder.query_size(), decoder.hidden, bias.input);
  out.linear(at + "k_proj", decoder.kv_size(), decoder.hidden, bias.input);
  out.linear(at + "v_proj", decoder.kv_size(), decoder.hidden, bias.input);
  out.linear(at + "o_proj", decoder.hidden, decoder.query_size(), bias.output);
}

void write_mlp(const std::string& at, int64_t hidden, int64_t intermediate,
               bool bias, TensorWriter& out) {
  out.linear(at + "gate_proj", intermediate, hidden, bias);
  out.linear(at + "up_proj", intermediate, hidden, bias);
  out.linear(at + "down_proj", hidden, intermediate, bias);
}

void write_head(const Decoder& decoder, const std::string& root,
                TensorWriter& out) {
  if (decoder.tied) return;
  out.linear(root + "lm_head", decoder.vocab, decoder.hidden);
}

// llama, mistral, qwen2 and qwen3: one shape of layer, told apart by biases
// and by norms of the heads of q and k.

namespace {

struct Dense {
  AttentionBias attention_bias;
  bool mlp_bias = false;
  bool head_norms = false;
};

void write_dense(const HfModelType& row, const Dense& dense,
                 ConfigReader& config, TensorWriter& out) {
  const Decoder decoder = read_decoder(row, config);
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

void write_llama(const HfModelType& row, ConfigReader& config,
                 TensorWriter& out) {
  const bool bias = config.flag("attention_bias", false);
  const bool mlp_bias = config.flag("mlp_bias", false);
  write_dense(row, {{bias, bias}, mlp_bias, false}, config, out);
}

void write_mistral(const HfModelType& row, ConfigReader& config,
                   TensorWriter& out) {
  write_dense(row, {}, config, out);
}

void write_qwen2(const HfModelType& row, ConfigReader& config,
                 TensorWriter& out) {
  write_dense(row, {{true, false}, false, false}, config, out);
}

void write_qwen3(const HfModelType& row, ConfigReader& config,
                 TensorWriter& out) {
  const bool bias = config.flag("attention_bias", false);
  write_dense(row, {{bias, bias}, false, true}, config, out);
}

// gemma2, gemma3's text model, and gemma3 with its SigLIP vision tower: norms
// on both sides of attention and MLP; gemma3 also norms the heads of q and k.

namespace {

// gemma3's configs on the Hub leave it out where the class has the same.
constexpr Fallback kGemma3Vocab = {.absent = 262'208};

void write_gemma(const Decoder& decoder, bool bias, bool head_norms,
                 const std::string& root, TensorWriter& out) {
  const std::string model = root + "model.";
  out.embedding(model + "embed_tokens", decoder.vocab, decoder.hidden);
  for (int64_t i = 0; i < decoder.layers; ++i) {
    const std::string at = layer_name(i, model);
    write_attention(at + "self_attn.", decoder, {bias, bias}, out);
    if (head_norms) {
      out.norm(at + "self_attn.q_norm", decoder.head_dim);
      out.norm(at + "self_attn.k_norm", decoder.head_dim);
    }
    write_mlp(at + "mlp.", decoder.hidden, decoder.intermediate, false, out);
    out.norm(at + "input_layernorm", decoder.hidden);
    out.norm(at + "post_attention_layernorm", decoder.hidden);
    out.norm(at + "pre_feedforward_layernorm", decoder.hidden);
    out.norm(at + "post_feedforward_layernorm", decoder.hidden);
  }
  out.norm(model + "norm", decoder.hidden);
  write_head(decoder, root, out);
}

struct Vision {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t channels = 0;
  int64_t patch = 0;
  int64_t patches = 0;  // per side of an image
};

Vision read_vision(ConfigReader& config) {
  Vision vision;
  vision.hidden = config.size("hidden_size");
  vision.intermediate = config.size("intermediate_size");
  vision.layers = config.count("num_hidden_layers", 1);
  vision.channels = config.size("num_channels", {.absent = 3});
  vision.patch = config.size("patch_size");
  vision.patches = config.size("image_size") / vision.patch;
  if (config.flag("vision_use_head", true)) {
    config
        .refuse("vision_use_head",
                "a vision tower with a pooling head is not known")
        .fact("gemma3 checkpoints have `vision_use_head: false`");
  }
  return vision;
}

void write_vision(const Vision& vision, TensorWriter& out) {
  const std::string root = "vision_tower.vision_model.";
  const std::string embeddings = root + "embeddings.";
  out.tensor(embeddings + "patch_embedding.weight",
             {vision.hidden, vision.channels, vision.patch, vision.patch});
  out.tensor(embeddings + "patch_embedding.bias", {vision.hidden});
  out.embedding(embeddings + "position_embedding",
                vision.patches * vision.patches, vision.hidden);
  for (int64_t i = 0; i < vision.layers; ++i) {
    const std::string at = layer_name(i, root + "encoder.");
    out.layer_norm(at + "layer_norm1", vision.hidden);
    for (const char* name : {"k_proj", "v_proj", "q_proj", "out_proj"}) {
      out.linear(at + "self_attn." + name, vision.hidden, vision.hidden, true);
    }
    out.layer_norm(at + "layer_norm2", vision.hidden);
    out.linear(at + "mlp.fc1", vision.intermediate, vision.hidden, true);
    out.linear(at + "mlp.fc2", vision.hidden, vision.intermediate, true);
  }
  out.layer_norm(root + "post_layernorm", vision.hidden);
}

}  // namespace

void write_gemma2(const HfModelType& row, ConfigReader& config,
                  TensorWriter& out) {
  const Decoder decoder = read_decoder(row, config);
  const bool bias = config.flag("attention_bias", false);
  if (!out.begin(decoder.layers, 16)) return;
  write_gemma(decoder, bias, false, "", out);
}

void write_gemma3_text(const HfModelType& row, ConfigReader& config,
                       TensorWriter& out) {
  const Decoder decoder = read_decoder(row, config, kGemma3Vocab);
  const bool bias = config.flag("attention_bias", false);
  if (!out.begin(decoder.layers, 18)) return;
  write_gemma(decoder, bias, true, "", out);
}

void write_gemma3(const HfModelType& row, ConfigReader& config,
                  TensorWriter& out) {
  auto text = config.section("text_config");
  auto tower = config.section("vision_config");
  if (!text || !tower) return;
  Decoder decoder = read_decoder(row, *text, kGemma3Vocab);
  decoder.tied = config.flag("tie_word_embeddings", row.tied);
  const bool bias = text->flag("attention_bias", false);
  const Vision vision = read_vision(*tower);
  if (!out.begin(decoder.layers + vision.layers, 18)) return;
  write_vision(vision, out);
  const std::string projector = "multi_modal_projector.";
  out.tensor(projector + "mm_input_projection_weight",
             {vision.hidden, decoder.hidden});
  out.norm(projector + "mm_soft_emb_norm", vision.hidden);
  write_gemma(decoder, bias, true, "language_model.", out);
}

// gpt_oss: experts stacked in one tensor, biases everywhere, a sink per head.
//
// As published the experts are MXFP4: a block is 32 values of 4 bits, stored
// as 16 bytes, with one exponent byte as its scale. Blocks run along the
// contracted dimension, which for this the checkpoint stores last; the
// unquantised tensors are stored [expert, in, out]. The scales are half of the
// weight's encoding, so they are placed like parameters.

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

void write_gpt_oss(const HfModelType& row, ConfigReader& config,
                   TensorWriter& out) {
  const Decoder decoder = read_decoder(row, config);
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

// mixtral: every layer has experts, each with w1 (gate), w3 (up), w2 (down).

void write_mixtral(const HfModelType& row, ConfigReader& config,
                   TensorWriter& out) {
  const Decoder decoder = read_decoder(row, config);
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

// qwen3_moe: qwen3's attention; experts in every `decoder_sparse_step`th layer
// but those of `mlp_only_layers`, a dense MLP in the others.

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

void write_qwen3_moe(const HfModelType& row, ConfigReader& config,
                     TensorWriter& out) {
  const Decoder decoder = read_decoder(row, config);
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

// gpt2: learned positions, fused q, k, v, Conv1D weights stored [in, out].
//
// The checkpoints of the model type name tensors without the prefix
// `transformer.` and hold the causal mask of each layer, which is not a
// parameter.

namespace {

struct Gpt2 {
  int64_t hidden = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  int64_t positions = 0;
};

// A Conv1D: its weight is the transpose of a linear layer's.
void write_conv(const std::string& name, int64_t in, int64_t out_size,
                TensorWriter& out) {
  out.tensor(name + ".weight", {in, out_size});
  out.tensor(name + ".bias", {out_size});
}

void write_layer(const std::string& at, const Gpt2& model, TensorWriter& out) {
  const int64_t hidden = model.hidden;
  out.layer_norm(at + "ln_1", hidden);
  out.buffer(at + "attn.bias", DType::F32,
             {1, 1, model.positions, model.positions});
  write_conv(at + "attn.c_attn", hidden, 3 * hidden, out);
  write_conv(at + "attn.c_proj", hidden, hidden, out);
  out.layer_norm(at + "ln_2", hidden);
  write_conv(at + "mlp.c_fc", hidden, model.inner, out);
  write_conv(at + "mlp.c_proj", model.inner, hidden, out);
}

}  // namespace

void write_gpt2(const HfModelType& row, ConfigReader& config,
                TensorWriter& out) {
  Gpt2 model;
  const int64_t vocab = config.size("vocab_size");
  model.hidden = config.size("n_embd");
  const int64_t wide = 4 * model.hidden;
  model.inner = config.size("n_inner", {.absent = wide, .null = wide});
  model.layers = config.count("n_layer", 1);
  model.positions = config.size("n_positions");
  if (config.flag("add_cross_attention", false)) {
    config.refuse("add_cross_attention", "cross attention is not known");
  }
  if (!config.flag("tie_word_embeddings", row.tied)) {
    config.refuse("tie_word_embeddings",
                  "a `gpt2` whose head is not its embedding is not known");
  }
  if (!out.begin(model.layers, 13)) return;
  out.embedding("wte", vocab, model.hidden);
  out.embedding("wpe", model.positions, model.hidden);
  for (int64_t i = 0; i < model.layers; ++i) {
    write_layer("h." + std::to_string(i) + ".", model, out);
  }
  out.layer_norm("ln_f", model.hidden);
}

// bert: an encoder, norms behind the sums, every linear layer with a bias.
//
// BertModel has a pooler and no prefix; BertForMaskedLM has a head instead,
// whose matrix is the word embedding, and the prefix `bert.`.

namespace {

struct Bert {
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t inner = 0;
  int64_t layers = 0;
  int64_t positions = 0;
  int64_t types = 0;
};

Bert read_bert(const HfModelType& row, ConfigReader& config) {
  Bert model;
  model.vocab = config.size("vocab_size");
  model.hidden = config.size("hidden_size");
  model.inner = config.size("intermediate_size");
  model.layers = config.count("num_hidden_layers", 1);
  model.positions = config.size("max_position_embeddings");
  model.types = config.size("type_vocab_size", {.absent = 2});
  if (config.flag("add_cross_attention", false)) {
    config.refuse("add_cross_attention", "cross attention is not known");
  }
  if (!config.flag("tie_word_embeddings", row.tied)) {
    config.refuse("tie_word_embeddings",
                  "a `bert` whose head is not its embedding is not known");
  }
  return model;
}

void bert_write_layer(const std::string& at, const Bert& model,
                      TensorWriter& out) {
  const int64_t hidden = model.hidden;
  for (const char* name : {"query", "key", "value"}) {
    out.linear(at + "attention.self." + name, hidden, hidden, true);
  }
  out.linear(at + "attention.output.dense", hidden, hidden, true);
  out.layer_norm(at + "attention.output.LayerNorm", hidden);
  out.linear(at + "intermediate.dense", model.inner, hidden, true);
  out.linear(at + "output.dense", hidden, model.inner, true);
  out.layer_norm(at + "output.LayerNorm", hidden);
}

void write_encoder(const std::string& at, const Bert& model,
                   TensorWriter& out) {
  const std::string table = at + "embeddings.";
  out.embedding(table + "word_embeddings", model.vocab, model.hidden);
  out.embedding(table + "position_embeddings", model.positions, model.hidden);
  out.embedding(table + "token_type_embeddings", model.types, model.hidden);
  out.layer_norm(table + "LayerNorm", model.hidden);
  for (int64_t i = 0; i < model.layers; ++i) {
    bert_write_layer(at + "encoder.layer." + std::to_string(i) + ".", model,
                     out);
  }
}

}  // namespace

void write_bert(const HfModelType& row, ConfigReader& config,
                TensorWriter& out) {
  const Bert model = read_bert(row, config);
  if (!out.begin(model.layers, 16)) return;
  write_encoder("", model, out);
  out.linear("pooler.dense", model.hidden, model.hidden, true);
}

void write_bert_masked_lm(const HfModelType& row, ConfigReader& config,
                          TensorWriter& out) {
  const Bert model = read_bert(row, config);
  if (!out.begin(model.layers, 16)) return;
  write_encoder("bert.", model, out);
  out.tensor("cls.predictions.bias", {model.vocab});
  out.linear("cls.predictions.transform.dense", model.hidden, model.hidden,
             true);
  out.layer_norm("cls.predictions.transform.LayerNorm", model.hidden);
}

}  // namespace shardplan
