// SPDX-License-Identifier: Apache-2.0
// bert: an encoder, norms behind the sums, every linear layer with a bias.
//
// BertModel has a pooler and no prefix; BertForMaskedLM has a head instead,
// whose matrix is the word embedding, and the prefix `bert.`.
#include "io/formats/hf_families/family.h"

namespace shardplan {
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

void write_layer(const std::string& at, const Bert& model, TensorWriter& out) {
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
    write_layer(at + "encoder.layer." + std::to_string(i) + ".", model, out);
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
