// SPDX-License-Identifier: Apache-2.0
// gpt2: learned positions, layer norms before attention and MLP, q, k and v
// side by side in one matrix, the head tied to the embedding (Radford et al.,
// "Language Models are Unsupervised Multitask Learners", 2019).
#include <utility>

#include "base/text.h"
#include "graph/decoder.h"
#include "graph/families/families.h"
#include "graph/family.h"
#include "graph/model_writer.h"

namespace shardplan {
namespace {

Labels residual_labels() { return {"BATCH", "LENGTH", ""}; }

class Gpt2Writer {
 public:
  explicit Gpt2Writer(ModelWriter& out)
      : out_(out),
        config_(out.config()),
        heads_(head_sizes(config_)),
        hidden_(*config_.hidden),
        inner_(config_.intermediate.value_or(0)) {}

  void run() {
    std::string x = embed();
    const int64_t layers = layers_run(out_.input().pass, config_);
    for (int64_t i = 0; i < layers && out_.good(); ++i) {
      x = layer("h." + std::to_string(i), "layers." + std::to_string(i), x);
    }
    x = norm("ln_f", x, "norm");
    const Labels labels = {"BATCH", "LENGTH", "VOCAB"};
    if (out_.has("lm_head.weight") && !*config_.tied) {
      out_.linear(
          {x, "bs", "lm_head", hidden_, *config_.vocab, "logits", labels});
    } else {
      out_.op("einsum", {x, table()}, "logits", {{"equation", "bsi,oi->bso"}},
              labels);
    }
    out_.output("logits");
  }

 private:
  std::string table() {
    return out_.parameter("wte.weight", {*config_.vocab, hidden_});
  }

  std::string embed() {
    const std::string ids = out_.token_ids("input_ids", {"BATCH", "LENGTH"});
    const std::string words = out_.op("embedding", {table(), ids},
                                      "embedded:words", {}, residual_labels());
    const int64_t length = out_.input().pass.length;
    const int64_t positions = config_.max_positions.value_or(0);
    if (out_.has("wpe.weight") && length > positions) {
      out_.refuse("the model has " + plural(positions, "position") + ", for " +
                  plural(length, "token"));
    }
    const std::string all = out_.parameter("wpe.weight", {positions, hidden_});
    const std::string first = out_.op("slice", {all}, "embedded:positions",
                                      {{"dim", 0.0}, {"end", number(length)}});
    return out_.op("add", {words, first}, "embedded", {}, residual_labels());
  }

  std::string norm(const std::string& name, const std::string& x,
                   std::string result) {
    return out_.op("layer_norm",
                   {x, out_.parameter(name + ".weight", {hidden_}),
                    out_.parameter(name + ".bias", {hidden_})},
                   std::move(result), {{"epsilon", *config_.norm_epsilon}});
  }

  std::string layer(const std::string& from, const std::string& at,
                    const std::string& x) {
    const std::string attended =
        out_.op("add",
                {x, attention(from + ".attn.", at + ".attn",
                              norm(from + ".ln_1", x, at + ".attn.input"))},
                at + ".attn.residual", {}, residual_labels());
    const std::string normed =
        norm(from + ".ln_2", attended, at + ".mlp.input");
    const std::string wide = out_.linear({normed,
                                          "bs",
                                          from + ".mlp.c_fc",
                                          hidden_,
                                          inner_,
                                          at + ".mlp.up",
                                          {},
                                          true});
    const std::string active = out_.activation(
        wide, at + ".mlp.hidden", {"BATCH", "LENGTH", "MLP_INTERMEDIATE"});
    const std::string narrow =
        out_.linear({active, "bs", from + ".mlp.c_proj", inner_, hidden_,
                     at + ".mlp.output", residual_labels(), true});
    std::string result = out_.op("add", {attended, narrow}, at + ".residual",
                                 {}, residual_labels());
    out_.probe(result);
    return result;
  }

  std::string attention(const std::string& from, const std::string& at,
                        const std::string& x) {
    const std::string fused = out_.linear({x,
                                           "bs",
                                           from + "c_attn",
                                           hidden_,
                                           3 * hidden_,
                                           at + ".qkv",
                                           {},
                                           true});
    const auto part = [&](int64_t index, const std::string& name) {
      return out_.op("slice", {fused}, at + "." + name + ":projected",
                     {{"dim", -1.0},
                      {"begin", number(index * hidden_)},
                      {"end", number((index + 1) * hidden_)}});
    };
    const std::string query = query_heads(out_, heads_, part(0, "query"),
                                          at + ".query", query_labels(heads_));
    const std::string key = key_heads(out_, heads_, part(1, "key"), at + ".key",
                                      key_labels(heads_));
    const std::string value = key_heads(out_, heads_, part(2, "value"),
                                        at + ".value", key_labels(heads_));
    const std::string mixed =
        attend(out_, heads_, {at, query, key, value, true, 0});
    return out_.linear({mixed, "bs", from + "c_proj", hidden_, hidden_,
                        at + ".output", residual_labels(), true});
  }

  ModelWriter& out_;
  const ModelConfig& config_;
  HeadSizes heads_;
  int64_t hidden_;
  int64_t inner_;
};

std::optional<ModelConfig> complete_gpt2(const FamilyInput& input,
                                         Diagnostics& diags) {
  using Where = SizeSource::Where;
  FamilySizes sizes;
  sizes.family = "gpt2";
  sizes.layers = "h";
  sizes.vocab = {{"wte.weight"}, Where::First};
  sizes.hidden = {{"wte.weight"}, Where::Last};
  sizes.positions = {{"wpe.weight"}, Where::First};
  sizes.intermediate = {{"h.0.mlp.c_fc.bias"}, Where::Last};
  sizes.norm_epsilon = 1e-5;
  sizes.activation = "gelu_new";
  sizes.rope_theta = 0;
  sizes.tied = true;
  auto config = complete_config(input, sizes, diags);
  if (!config) return std::nullopt;
  const auto width = *config->heads * *config->head_dim;
  if (width == *config->hidden && config->heads == config->kv_heads) {
    return config;
  }
  return diags
      .error(Code::UnsupportedConfig, config->where,
             "heads of a `gpt2` are as wide as its hidden size together")
      .fact(count_text(*config->heads) + " heads of " +
            count_text(*config->head_dim) + ", hidden size " +
            count_text(*config->hidden));
}

std::optional<GraphDescription> describe_gpt2(const FamilyInput& input,
                                              Diagnostics& diags) {
  const auto config = complete_gpt2(input, diags);
  if (!config) return std::nullopt;
  ModelWriter out(input, *config, "gpt2", diags);
  Gpt2Writer(out).run();
  return out.finish();
}

}  // namespace

Family gpt2_family() {
  Family family;
  family.name = "gpt2";
  family.summary = "GPT-2: learned positions, q, k and v in one matrix";
  family.marks = {"wte.weight",
                  "wpe.weight",
                  "h.*.ln_1.weight",
                  "h.*.attn.c_attn.weight",
                  "h.*.attn.c_proj.weight",
                  "h.*.ln_2.weight",
                  "h.*.mlp.c_fc.weight",
                  "h.*.mlp.c_proj.weight",
                  "ln_f.weight"};
  family.foreign = {"h.*.crossattention.c_attn.weight",
                    "h.*.attn.q_attn.weight"};
  family.complete = complete_gpt2;
  family.describe = describe_gpt2;
  return family;
}

}  // namespace shardplan
