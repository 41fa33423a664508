// SPDX-License-Identifier: Apache-2.0
// gpt2: learned positions, fused q, k, v, Conv1D weights stored [in, out].
//
// The checkpoints of the family name tensors without the prefix `transformer.`
// and hold the causal mask of each layer, which is no parameter.
#include "io/hf_config/family.h"

namespace shardplan {
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

void write_gpt2(const HfFamily& family, ConfigReader& config,
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
  if (!config.flag("tie_word_embeddings", family.tied)) {
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

Bert read_bert(const HfFamily& family, ConfigReader& config) {
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
  if (!config.flag("tie_word_embeddings", family.tied)) {
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

void write_bert(const HfFamily& family, ConfigReader& config,
                TensorWriter& out) {
  const Bert model = read_bert(family, config);
  if (!out.begin(model.layers, 16)) return;
  write_encoder("", model, out);
  out.linear("pooler.dense", model.hidden, model.hidden, true);
}

void write_bert_masked_lm(const HfFamily& family, ConfigReader& config,
                          TensorWriter& out) {
  const Bert model = read_bert(family, config);
  if (!out.begin(model.layers, 16)) return;
  write_encoder("bert.", model, out);
  out.tensor("cls.predictions.bias", {model.vocab});
  out.linear("cls.predictions.transform.dense", model.hidden, model.hidden,
             true);
  out.layer_norm("cls.predictions.transform.LayerNorm", model.hidden);
}

}  // namespace shardplan
