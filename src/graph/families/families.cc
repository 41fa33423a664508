// SPDX-License-Identifier: Apache-2.0
// llama, mistral, qwen2 and qwen3: one shape of layer. Biases and norms of the
// heads are there where the checkpoint has them; windows are the config's. They
// do not differ in what a config may leave out (transformers 4.57).

#include "graph/families/families.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "graph/decoder.h"
#include "graph/family.h"
#include "graph/model_writer.h"

namespace shardplan {
namespace {

constexpr std::string_view kLlama = "llama";
constexpr std::string_view kMistral = "mistral";
constexpr std::string_view kQwen2 = "qwen2";
constexpr std::string_view kQwen3 = "qwen3";

template <const std::string_view& name>
std::optional<ModelConfig> complete(const FamilyInput& input,
                                    Diagnostics& diags) {
  return complete_config(input, decoder_sizes(name), diags);
}

template <const std::string_view& name>
std::optional<GraphDescription> describe(const FamilyInput& input,
                                         Diagnostics& diags) {
  const auto config = complete<name>(input, diags);
  if (!config) return std::nullopt;
  return write_decoder(input, *config, name, write_dense_mlp, diags);
}

template <const std::string_view& name>
Family dense(std::string_view summary,
             std::vector<std::string_view> further_marks) {
  Family family;
  family.name = name;
  family.summary = summary;
  family.marks = decoder_marks();
  for (const std::string_view kernel :
       {"layers.*.mlp.gate_proj.weight", "layers.*.mlp.up_proj.weight",
        "layers.*.mlp.down_proj.weight"}) {
    family.marks.push_back(kernel);
  }
  family.marks.insert(family.marks.end(), further_marks.begin(),
                      further_marks.end());
  family.foreign = decoder_foreign();
  family.foreign.push_back("layers.*.mlp.gate.weight");
  family.complete = complete<name>;
  family.describe = describe<name>;
  return family;
}

}  // namespace

Family llama_family() {
  return dense<kLlama>("Llama 1 to 3 and models of their shape", {});
}

Family mistral_family() {
  return dense<kMistral>("Mistral: Llama with a sliding window", {});
}

Family qwen2_family() {
  return dense<kQwen2>(
      "Qwen 2 and 2.5: Llama with biases of q, k and v",
      {"layers.*.self_attn.q_proj.bias", "layers.*.self_attn.k_proj.bias",
       "layers.*.self_attn.v_proj.bias"});
}

Family qwen3_family() {
  return dense<kQwen3>(
      "Qwen 3: Llama with norms of the heads of q and k",
      {"layers.*.self_attn.q_norm.weight", "layers.*.self_attn.k_norm.weight"});
}

// mixtral: Mistral's attention, experts in every layer. w1 is gate, w3 up and
// w2 down; softmax is over all experts, the chosen ones' shares are brought to
// 1 (Jiang et al., "Mixtral of Experts", 2024).

namespace {

// transformers 5 names the same experts as other models do.
constexpr std::string_view kOld = "block_sparse_moe";
constexpr std::string_view kNew = "mlp";

std::optional<ModelConfig> complete_mixtral(const FamilyInput& input,
                                            Diagnostics& diags) {
  using Where = SizeSource::Where;
  FamilySizes sizes = decoder_sizes("mixtral");
  sizes.norm_epsilon = 1e-5;
  sizes.rope_theta = 1e6;
  sizes.experts_per_token = 2;
  sizes.experts = {
      {"layers.0.block_sparse_moe.gate.weight", "layers.0.mlp.gate.weight"}};
  sizes.intermediate = {{"layers.0.block_sparse_moe.experts.0.w1.weight",
                         "layers.0.block_sparse_moe.experts.w1.weight"}};
  if (input.names.find("layers.0.mlp.experts.down_proj") != nullptr) {
    sizes.intermediate = {{"layers.0.mlp.experts.down_proj"}, Where::Last};
  }
  auto config = complete_config(input, sizes, diags);
  // Mixtral's router always does; a `norm_topk_prob` is not looked at.
  if (config) config->normalise_top_k = true;
  return config;
}

std::string write_mlp(ModelWriter& out, int64_t layer, const std::string& x) {
  const std::string at = "layers." + std::to_string(layer) + ".";
  const bool old = !out.has(at + "mlp.gate.weight");
  const std::string block = at + std::string(old ? kOld : kNew);
  ExpertNames names{block + ".gate", block + ".experts"};
  if (old) {
    names.gate = "w1";
    names.up = "w3";
    names.down = "w2";
  }
  return write_experts(out, names, out.config().intermediate.value_or(0),
                       at + "mlp", x);
}

std::optional<GraphDescription> describe_mixtral(const FamilyInput& input,
                                                 Diagnostics& diags) {
  const auto config = complete_mixtral(input, diags);
  if (!config) return std::nullopt;
  return write_decoder(input, *config, "mixtral", write_mlp, diags);
}

}  // namespace

Family mixtral_family() {
  Family family;
  family.name = "mixtral";
  family.summary = "Mixtral: experts in every layer";
  family.marks = decoder_marks();
  family.marks.push_back("layers.*.block_sparse_moe.gate.weight");
  family.foreign = decoder_foreign();
  family.complete = complete_mixtral;
  family.describe = describe_mixtral;
  return family;
}

// qwen3_moe: Qwen 3's attention; experts in every `decoder_sparse_step`th layer
// but those of `mlp_only_layers`, a dense MLP in the others.

namespace {

std::optional<ModelConfig> complete_qwen3_moe(const FamilyInput& input,
                                              Diagnostics& diags) {
  using Where = SizeSource::Where;
  FamilySizes sizes = decoder_sizes("qwen3_moe");
  sizes.experts_per_token = 8;
  sizes.normalise_top_k = false;
  const ParameterNames& names = input.names;
  // The first layer that has what is looked for; which one, only a config says.
  // A number in a name may be any; complete_config refuses those too large.
  const int64_t layers = std::min(names.layer_count("layers"), kMaxModelLayers);
  const auto first = [&](std::string_view name) {
    for (int64_t i = 0; i < layers; ++i) {
      std::string at = "layers." + std::to_string(i) + "." + std::string(name);
      if (names.find(at) != nullptr) return at;
    }
    return std::string();
  };
  const std::string gate = first("mlp.gate.weight");
  const std::string dense = first("mlp.up_proj.weight");
  const std::string one = first("mlp.experts.0.up_proj.weight");
  const std::string stacked = first("mlp.experts.up_proj.weight");
  const std::string fused = first("mlp.experts.down_proj");
  sizes.experts = {{gate}};
  sizes.intermediate = {{dense}};
  sizes.expert_intermediate = {{one, stacked}};
  if (!fused.empty()) sizes.expert_intermediate = {{fused}, Where::Last};
  return complete_config(input, sizes, diags);
}

// Without a config the names tell which layers have experts.
bool has_experts(const ModelWriter& out, int64_t layer) {
  const ModelConfig& config = out.config();
  if (config.where || !config.model_type.empty()) {
    return (layer + 1) % *config.sparse_step == 0 &&
           std::find(config.dense_layers.begin(), config.dense_layers.end(),
                     layer) == config.dense_layers.end();
  }
  return out.has("layers." + std::to_string(layer) + ".mlp.gate.weight");
}

std::string qwen3_moe_write_mlp(ModelWriter& out, int64_t layer,
                                const std::string& x) {
  if (!has_experts(out, layer)) return write_dense_mlp(out, layer, x);
  const std::string at = "layers." + std::to_string(layer) + ".mlp";
  return write_experts(out, {at + ".gate", at + ".experts"},
                       out.config().expert_intermediate.value_or(0), at, x);
}

std::optional<GraphDescription> describe_qwen3_moe(const FamilyInput& input,
                                                   Diagnostics& diags) {
  const auto config = complete_qwen3_moe(input, diags);
  if (!config) return std::nullopt;
  return write_decoder(input, *config, "qwen3_moe", qwen3_moe_write_mlp, diags);
}

}  // namespace

Family qwen3_moe_family() {
  Family family;
  family.name = "qwen3_moe";
  family.summary = "Qwen 3 with experts, perhaps not in every layer";
  family.marks = decoder_marks();
  for (const std::string_view mark :
       {"layers.*.self_attn.q_norm.weight", "layers.*.self_attn.k_norm.weight",
        "layers.*.mlp.gate.weight"}) {
    family.marks.push_back(mark);
  }
  family.foreign = decoder_foreign();
  family.complete = complete_qwen3_moe;
  family.describe = describe_qwen3_moe;
  return family;
}

// gpt2: learned positions, layer norms before attention and MLP, q, k and v
// side by side in one matrix, the head tied to the embedding (Radford et al.,
// "Language Models are Unsupervised Multitask Learners", 2019).

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
    if (out_.is_base_model("lm_head.weight")) {
      out_.output(norm("ln_f", x, "last_hidden_state"));
      return;
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
  sizes.layer_prefix = "h";
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

// bert: an encoder. Words, positions and kinds of tokens are added, every token
// sees all others, layer norms stand behind attention and MLP (Devlin et al.,
// "BERT", 2018). All tokens are of kind 0.

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
    const bool own = out_.has(weight) && !*config_.tied;
    // A tied matrix has its bias under both names, or under the first.
    const bool own_bias =
        out_.has(from + "decoder.bias") && (own || !out_.has(from + "bias"));
    const std::string bias = from + (own_bias ? "decoder.bias" : "bias");
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
  sizes.layer_prefix = "encoder.layer";
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
