// SPDX-License-Identifier: Apache-2.0
// gemma2, gemma3's text model, and gemma3 with its SigLIP vision tower: norms
// on both sides of attention and MLP; gemma3 also norms the heads of q and k.
#include "io/formats/hf_families/decoder.h"

namespace shardplan {
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

void write_gemma2(const HfFamily& family, ConfigReader& config,
                  TensorWriter& out) {
  const Decoder decoder = read_decoder(family, config);
  const bool bias = config.flag("attention_bias", false);
  if (!out.begin(decoder.layers, 16)) return;
  write_gemma(decoder, bias, false, "", out);
}

void write_gemma3_text(const HfFamily& family, ConfigReader& config,
                       TensorWriter& out) {
  const Decoder decoder = read_decoder(family, config, kGemma3Vocab);
  const bool bias = config.flag("attention_bias", false);
  if (!out.begin(decoder.layers, 18)) return;
  write_gemma(decoder, bias, true, "", out);
}

void write_gemma3(const HfFamily& family, ConfigReader& config,
                  TensorWriter& out) {
  auto text = config.section("text_config");
  auto tower = config.section("vision_config");
  if (!text || !tower) return;
  Decoder decoder = read_decoder(family, *text, kGemma3Vocab);
  decoder.tied = config.flag("tie_word_embeddings", family.tied);
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

}  // namespace shardplan
