// SPDX-License-Identifier: Apache-2.0
#include "io/formats/hf_families/decoder.h"

#include <optional>

#include "base/text.h"

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

Decoder read_sizes(const HfFamily& family, ConfigReader& config,
                   const Fallback& vocab) {
  Decoder decoder;
  decoder.vocab = config.size("vocab_size", vocab);
  decoder.hidden = config.size("hidden_size");
  decoder.intermediate = config.size("intermediate_size");
  decoder.layers = config.count("num_hidden_layers", 1);
  decoder.heads = config.size("num_attention_heads",
                              fallback_of({family.heads, kRefused}, {}));
  decoder.tied = config.flag("tie_word_embeddings", family.tied);
  return decoder;
}

Decoder read_decoder(const HfFamily& family, ConfigReader& config,
                     const Fallback& vocab) {
  Decoder decoder = read_sizes(family, config, vocab);
  if (!config.ok()) return decoder;
  decoder.kv_heads = config.size("num_key_value_heads",
                                 fallback_of(family.kv_heads, decoder.heads));
  const std::optional<int64_t> derived = quotient(decoder);
  if (!derived && !config.find("head_dim") &&
      family.head_dim.absent == kDerived) {
    config
        .refuse("hidden_size",
                "without `head_dim`, `hidden_size` must be a multiple of "
                "`num_attention_heads`")
        .fact("hidden size " + count_text(decoder.hidden) + ", " +
              count_text(decoder.heads) + " heads");
    return decoder;
  }
  decoder.head_dim =
      config.size("head_dim", fallback_of(family.head_dim, derived));
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

}  // namespace shardplan
