// SPDX-License-Identifier: Apache-2.0
// bert: an encoder. Words, positions and kinds of tokens are added, every token
// sees all others, layer norms stand behind attention and MLP (Devlin et al.,
// "BERT", 2018). All tokens are of kind 0.
#include <utility>

#include "base/text.h"
#include "graph/decoder.h"
#include "graph/families/families.h"
#include "graph/family.h"
#include "graph/model_writer.h"

namespace shardplan {
namespace {

Labels bert_residual_labels() { return {"BATCH", "LENGTH", ""}; }

class BertWriter {
 public:
  explicit BertWriter(ModelWriter& out)
      : out_(out),
        config_(out.config()),
        heads_(head_sizes(config_)),
        hidden_(*config_.hidden),
        inner_(config_.intermediate.value_or(0)) {}

  void run() {
    std::string x = embed();
    const int64_t layers = layers_run(out_.input().pass, config_);
    for (int64_t i = 0; i < layers && out_.good(); ++i) {
      const bool last = i + 1 == layers;
      x = layer(i, x, last ? "last_hidden_state" : "");
    }
    if (out_.has("cls.predictions.transform.dense.weight")) {
      predict(x);
    } else {
      out_.output(x);
    }
    if (out_.has("pooler.dense.weight")) pool(x);
  }

 private:
  std::string table() {
    return out_.parameter("embeddings.word_embeddings.weight",
                          {*config_.vocab, hidden_});
  }

  std::string embed() {
    const std::string ids = out_.token_ids("input_ids", {"BATCH", "LENGTH"});
    const std::string words =
        out_.op("embedding", {table(), ids}, "embedded:words", {},
                bert_residual_labels());
    const int64_t length = out_.input().pass.length;
    const int64_t positions = config_.max_positions.value_or(0);
    const std::string all_positions = "embeddings.position_embeddings.weight";
    if (out_.has(all_positions) && length > positions) {
      out_.refuse("the model has " + plural(positions, "position") + ", for " +
                  plural(length, "token"));
    }
    const std::string kind =
        out_.op("slice",
                {out_.parameter("embeddings.token_type_embeddings.weight",
                                {config_.token_types.value_or(0), hidden_})},
                "embedded:kind", {{"dim", 0.0}, {"end", 1.0}});
    const std::string typed = out_.op("add", {words, kind}, "embedded:typed");
    const std::string first =
        out_.op("slice", {out_.parameter(all_positions, {positions, hidden_})},
                "embedded:positions", {{"dim", 0.0}, {"end", number(length)}});
    const std::string sum = out_.op("add", {typed, first}, "embedded:sum");
    return norm("embeddings.LayerNorm", sum, "embedded",
                bert_residual_labels());
  }

  std::string norm(const std::string& name, const std::string& x,
                   std::string result, Labels axes) {
    return out_.op("layer_norm",
                   {x, out_.parameter(name + ".weight", {hidden_}),
                    out_.parameter(name + ".bias", {hidden_})},
                   std::move(result), {{"epsilon", *config_.norm_epsilon}},
                   std::move(axes));
  }

  std::string layer(int64_t index, const std::string& x, std::string result) {
    const std::string from = "encoder.layer." + std::to_string(index) + ".";
    const std::string at = "layers." + std::to_string(index);
    const std::string mixed = attention(from + "attention.self.", at, x);
    const std::string output =
        out_.linear({mixed, "bs", from + "attention.output.dense",
                     heads_.heads * heads_.head_dim, hidden_,
                     at + ".attn.output", bert_residual_labels()});
    const std::string attended =
        norm(from + "attention.output.LayerNorm",
             out_.op("add", {output, x}, at + ".attn.sum"),
             at + ".attn.residual", bert_residual_labels());
    const std::string wide =
        out_.linear({attended, "bs", from + "intermediate.dense", hidden_,
                     inner_, at + ".mlp.up"});
    const std::string active = out_.activation(
        wide, at + ".mlp.hidden", {"BATCH", "LENGTH", "MLP_INTERMEDIATE"});
    const std::string narrow =
        out_.linear({active, "bs", from + "output.dense", inner_, hidden_,
                     at + ".mlp.output", bert_residual_labels()});
    const std::string sum = out_.op("add", {narrow, attended}, at + ".mlp.sum");
    if (result.empty()) result = at + ".residual";
    std::string name = norm(from + "output.LayerNorm", sum, std::move(result),
                            bert_residual_labels());
    out_.probe(name);
    return name;
  }

  std::string attention(const std::string& from, const std::string& layer,
                        const std::string& x) {
    const std::string at = layer + ".attn";
    const int64_t width = heads_.heads * heads_.head_dim;
    const auto project = [&](const std::string& name) {
      return out_.linear({x, "bs", from + name, hidden_, width,
                          at + "." + name + ":projected"});
    };
    const std::string query = query_heads(out_, heads_, project("query"),
                                          at + ".query", query_labels(heads_));
    const std::string key = key_heads(out_, heads_, project("key"), at + ".key",
                                      key_labels(heads_));
    const std::string value = key_heads(out_, heads_, project("value"),
                                        at + ".value", key_labels(heads_));
    return attend(out_, heads_, {at, query, key, value, false, 0});
  }

  // tanh of a dense layer of the first token.
  void pool(const std::string& x) {
    const int64_t batch = out_.input().pass.batch;
    const std::string row = out_.op("slice", {x}, "pooler_output:first",
                                    {{"dim", 1.0}, {"end", 1.0}});
    const std::string first = out_.op("reshape", {row}, "pooler_output:token",
                                      {{"shape", Shape{batch, hidden_}}});
    const std::string dense = out_.linear(
        {first, "b", "pooler.dense", hidden_, hidden_, "pooler_output:dense"});
    out_.output(out_.op("tanh", {dense}, "pooler_output", {}, {"BATCH", ""}));
  }

  // The masked-language-model head; its matrix is the embedding unless stored.
  void predict(const std::string& x) {
    const std::string from = "cls.predictions.";
    const std::string dense = out_.linear(
        {x, "bs", from + "transform.dense", hidden_, hidden_, "head:dense"});
    const std::string active = out_.activation(dense, "head:active", {});
    const std::string normed = norm(from + "transform.LayerNorm", active,
                                    "head", bert_residual_labels());
    const Labels labels = {"BATCH", "LENGTH", "VOCAB"};
    const std::string weight = from + "decoder.weight";
    const std::string bias =
        from + (out_.has(from + "bias") ? "bias" : "decoder.bias");
    const bool own = out_.has(weight) && !*config_.tied;
    const bool inputs_first = own && out_.inputs_first(weight);
    const Shape shape = inputs_first ? Shape{hidden_, *config_.vocab}
                                     : Shape{*config_.vocab, hidden_};
    const std::string product = out_.op(
        "einsum", {normed, own ? out_.parameter(weight, shape) : table()},
        "logits:product",
        {{"equation", inputs_first ? "bsi,io->bso" : "bsi,oi->bso"}}, labels);
    out_.output(out_.op("add",
                        {product, out_.parameter(bias, {*config_.vocab})},
                        "logits", {}, labels));
  }

  ModelWriter& out_;
  const ModelConfig& config_;
  HeadSizes heads_;
  int64_t hidden_;
  int64_t inner_;
};

std::optional<ModelConfig> complete_bert(const FamilyInput& input,
                                         Diagnostics& diags) {
  using Where = SizeSource::Where;
  FamilySizes sizes;
  sizes.family = "bert";
  sizes.layers = "encoder.layer";
  sizes.vocab = {{"embeddings.word_embeddings.weight"}, Where::First};
  sizes.hidden = {{"embeddings.word_embeddings.weight"}, Where::Last};
  sizes.positions = {{"embeddings.position_embeddings.weight"}, Where::First};
  sizes.token_types = {{"embeddings.token_type_embeddings.weight"},
                       Where::First};
  sizes.intermediate = {{"encoder.layer.0.intermediate.dense.bias"},
                        Where::Last};
  sizes.norm_epsilon = 1e-12;
  sizes.activation = "gelu";
  sizes.rope_theta = 0;
  sizes.tied = true;
  return complete_config(input, sizes, diags);
}

std::optional<GraphDescription> describe_bert(const FamilyInput& input,
                                              Diagnostics& diags) {
  const auto config = complete_bert(input, diags);
  if (!config) return std::nullopt;
  ModelWriter out(input, *config, "bert", diags);
  BertWriter(out).run();
  return out.finish();
}

}  // namespace

Family bert_family() {
  Family family;
  family.name = "bert";
  family.summary = "BERT: an encoder, with its pooler and its word head";
  family.marks = {"embeddings.word_embeddings.weight",
                  "embeddings.position_embeddings.weight",
                  "embeddings.token_type_embeddings.weight",
                  "encoder.layer.*.attention.self.query.weight",
                  "encoder.layer.*.attention.output.dense.weight",
                  "encoder.layer.*.intermediate.dense.weight",
                  "encoder.layer.*.output.dense.weight"};
  family.foreign = {"encoder.layer.*.crossattention.self.query.weight"};
  family.complete = complete_bert;
  family.describe = describe_bert;
  return family;
}

}  // namespace shardplan
