// SPDX-License-Identifier: Apache-2.0
#include "graph/decoder.h"

#include <cmath>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/facts.h"

namespace shardplan {
namespace {

using Where = SizeSource::Where;

std::string layer_name(int64_t layer) {
  return "layers." + std::to_string(layer);
}

Labels residual_labels() { return {"BATCH", "LENGTH", ""}; }

class DecoderWriter {
 public:
  DecoderWriter(ModelWriter& out, const WriteMlp& mlp)
      : out_(out),
        mlp_(mlp),
        config_(out.config()),
        heads_(head_sizes(config_)),
        hidden_(*config_.hidden) {}

  void run() {
    const std::string ids = out_.token_ids("input_ids", {"BATCH", "LENGTH"});
    std::string x =
        out_.op("embedding", {table(), ids}, "embedded", {}, residual_labels());
    const int64_t layers = layers_run(out_.input().pass, config_);
    for (int64_t i = 0; i < layers && out_.good(); ++i) x = layer(i, x);
    if (out_.is_base_model("lm_head.weight")) {
      out_.output(norm("norm", hidden_, x, "last_hidden_state"));
    } else {
      logits(norm("norm", hidden_, x, "norm"));
    }
  }

 private:
  std::string table() {
    return out_.parameter("embed_tokens.weight", {*config_.vocab, hidden_});
  }

  std::string norm(const std::string& name, int64_t size, const std::string& x,
                   std::string result, Labels axes = {}) {
    return out_.op("rms_norm", {x, out_.parameter(name + ".weight", {size})},
                   std::move(result), {{"epsilon", *config_.norm_epsilon}},
                   std::move(axes));
  }

  std::string layer(int64_t index, const std::string& x) {
    const std::string at = layer_name(index);
    const std::string normed =
        norm(at + ".input_layernorm", hidden_, x, at + ".attn.input");
    const std::string attended =
        out_.op("add", {x, attention(index, normed)}, at + ".attn.residual", {},
                residual_labels());
    const std::string inner = norm(at + ".post_attention_layernorm", hidden_,
                                   attended, at + ".mlp.input");
    std::string result = out_.op("add", {attended, mlp_(out_, index, inner)},
                                 at + ".residual", {}, residual_labels());
    out_.probe(result);
    return result;
  }

  std::string attention(int64_t index, const std::string& x) {
    const std::string from = layer_name(index) + ".self_attn.";
    const std::string at = layer_name(index) + ".attn";
    const std::string query = rotated(
        query_heads(
            out_, heads_,
            project(from + "q_proj", heads_.heads, x, at + ".query:projected"),
            at + ".query:heads"),
        from + "q_norm", at + ".query", query_labels(heads_));
    const std::string key = rotated(
        key_heads(
            out_, heads_,
            project(from + "k_proj", heads_.kv_heads, x, at + ".key:projected"),
            at + ".key:heads"),
        from + "k_norm", at + ".key", key_labels(heads_));
    const std::string value = key_heads(
        out_, heads_,
        project(from + "v_proj", heads_.kv_heads, x, at + ".value:projected"),
        at + ".value", key_labels(heads_));
    const std::string mixed =
        attend(out_, heads_, {at, query, key, value, true, window(index)});
    return out_.linear({mixed, "bs", from + "o_proj",
                        heads_.heads * heads_.head_dim, hidden_, at + ".output",
                        residual_labels()});
  }

  std::string project(const std::string& name, int64_t heads,
                      const std::string& x, std::string result) {
    return out_.linear(
        {x, "bs", name, hidden_, heads * heads_.head_dim, std::move(result)});
  }

  // Positions of queries and keys, behind the norm of their heads where the
  // checkpoint has one.
  std::string rotated(std::string x, const std::string& norm_name,
                      std::string result, Labels axes) {
    if (out_.has(norm_name + ".weight")) {
      x = norm(norm_name, heads_.head_dim, x, result + ":normed");
    }
    const RopeConfig& rope = config_.rope;
    GivenAttributes attributes = {{"dim", 1.0}, {"theta", *rope.theta}};
    if (!rope.scaling.empty() && rope.scaling != "default") {
      attributes.emplace_back("scaling", rope.scaling);
      attributes.emplace_back("factor", rope.factor);
    }
    if (rope.scaling == "llama3") {
      attributes.emplace_back("low_freq_factor", rope.low_freq_factor);
      attributes.emplace_back("high_freq_factor", rope.high_freq_factor);
      attributes.emplace_back("original_positions",
                              number(rope.original_positions));
    }
    return out_.op("rope", {std::move(x)}, std::move(result),
                   std::move(attributes), std::move(axes));
  }

  int64_t window(int64_t layer) {
    const auto index = static_cast<size_t>(layer);
    if (index >= config_.windows.size()) return 0;
    const int64_t size = config_.windows[index];
    if (size != kUnknownWindow) return size;
    out_.refuse("what layer " + std::to_string(layer) +
                " attends to is not known")
        .help("windows and full attention are");
    return 0;
  }

  void logits(const std::string& x) {
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

  ModelWriter& out_;
  const WriteMlp& mlp_;
  const ModelConfig& config_;
  HeadSizes heads_;
  int64_t hidden_;
};

}  // namespace

FamilySizes decoder_sizes(std::string_view family) {
  FamilySizes sizes;
  sizes.family = family;
  sizes.layer_prefix = "layers";
  sizes.vocab = {{"embed_tokens.weight"}, Where::First};
  sizes.hidden = {{"embed_tokens.weight"}, Where::Last};
  sizes.queries = {{"layers.0.self_attn.q_proj.weight"}};
  sizes.keys = {{"layers.0.self_attn.k_proj.weight"}};
  sizes.head_dim = {{"layers.0.self_attn.q_norm.weight"}};
  sizes.intermediate = {{"layers.0.mlp.up_proj.weight"}};
  return sizes;
}

std::vector<std::string_view> decoder_marks() {
  return {"embed_tokens.weight",
          "layers.*.input_layernorm.weight",
          "layers.*.self_attn.q_proj.weight",
          "layers.*.self_attn.k_proj.weight",
          "layers.*.self_attn.v_proj.weight",
          "layers.*.self_attn.o_proj.weight",
          "layers.*.post_attention_layernorm.weight",
          "norm.weight"};
}

// gemma2 and gemma3, gpt_oss, deepseek.
std::vector<std::string_view> decoder_foreign() {
  return {"layers.*.pre_feedforward_layernorm.weight",
          "layers.*.post_feedforward_layernorm.weight",
          "layers.*.self_attn.sinks",
          "layers.*.mlp.shared_experts.up_proj.weight"};
}

std::string write_dense_mlp(ModelWriter& out, int64_t layer,
                            const std::string& x) {
  const std::string at = layer_name(layer) + ".mlp";
  const int64_t hidden = *out.config().hidden;
  const int64_t inner = out.config().intermediate.value_or(0);
  const std::string gate =
      out.linear({x, "bs", at + ".gate_proj", hidden, inner, at + ".gate"});
  const std::string up =
      out.linear({x, "bs", at + ".up_proj", hidden, inner, at + ".up"});
  const std::string active = out.activation(gate, at + ".active");
  const std::string mixed = out.op("multiply", {active, up}, at + ".hidden", {},
                                   {"BATCH", "LENGTH", "MLP_INTERMEDIATE"});
  return out.linear({mixed, "bs", at + ".down_proj", inner, hidden,
                     at + ".output", residual_labels()});
}

std::optional<GraphDescription> write_decoder(const FamilyInput& input,
                                              const ModelConfig& config,
                                              std::string_view family,
                                              const WriteMlp& mlp,
                                              Diagnostics& diags) {
  ModelWriter out(input, config, family, diags);
  DecoderWriter(out, mlp).run();
  return out.finish();
}

HeadSizes head_sizes(const ModelConfig& config) {
  return {*config.heads, *config.kv_heads, *config.head_dim};
}

Labels query_labels(const HeadSizes& sizes) {
  if (!sizes.grouped()) return {"BATCH", "QUERY_LENGTH", "HEAD", "HEAD_DIM"};
  // One KV head for all queries cannot be shared out; its groups can.
  if (sizes.kv_heads == 1) {
    return {"BATCH", "QUERY_LENGTH", "", "HEAD", "HEAD_DIM"};
  }
  return {"BATCH", "QUERY_LENGTH", "KV_HEAD", "", "HEAD_DIM"};
}

Labels key_labels(const HeadSizes& sizes) {
  return {"BATCH", "KV_LENGTH", sizes.kv_heads == 1 ? "" : "KV_HEAD",
          "KV_HEAD_DIM"};
}

std::string query_heads(ModelWriter& out, const HeadSizes& sizes,
                        const std::string& projected, std::string result,
                        Labels axes) {
  const ForwardPass& pass = out.input().pass;
  Shape shape = {pass.batch, pass.length, sizes.heads, sizes.head_dim};
  if (sizes.grouped()) {
    shape = {pass.batch, pass.length, sizes.kv_heads, sizes.groups(),
             sizes.head_dim};
  }
  return out.op("reshape", {projected}, std::move(result), {{"shape", shape}},
                std::move(axes));
}

std::string key_heads(ModelWriter& out, const HeadSizes& sizes,
                      const std::string& projected, std::string result,
                      Labels axes) {
  const ForwardPass& pass = out.input().pass;
  const Shape shape = {pass.batch, pass.length, sizes.kv_heads, sizes.head_dim};
  return out.op("reshape", {projected}, std::move(result), {{"shape", shape}},
                std::move(axes));
}

std::string attend(ModelWriter& out, const HeadSizes& sizes,
                   const Attention& attention) {
  const std::string& at = attention.name;
  const bool grouped = sizes.grouped();
  const std::string products =
      out.op("einsum", {attention.query, attention.key}, at + ".products",
             {{"equation", grouped ? "bqhgd,bkhd->bhgqk" : "bqhd,bkhd->bhqk"}});
  std::string scores = out.op("scale", {products}, at + ".scores",
                              {{"by", 1 / std::sqrt(number(sizes.head_dim))}});
  if (attention.causal) {
    GivenAttributes attributes;
    if (attention.window > 0) {
      attributes.emplace_back("window", number(attention.window));
    }
    scores =
        out.op("causal_mask", {scores}, at + ".masked", std::move(attributes));
  }
  const std::string weights = out.op("softmax", {scores}, at + ".weights");
  const std::string mixed =
      out.op("einsum", {weights, attention.value}, at + ".mixed",
             {{"equation", grouped ? "bhgqk,bkhd->bqhgd" : "bhqk,bkhd->bqhd"}});
  const ForwardPass& pass = out.input().pass;
  return out.op("reshape", {mixed}, at + ".joined",
                {{"shape", Shape{pass.batch, pass.length,
                                 sizes.heads * sizes.head_dim}}});
}

namespace {

// One kernel of all experts, or of one: gate, up and down alike.
struct Expert {
  std::string x;
  std::string dims;     // letters of x
  std::string at;       // of its values
  std::string weights;  // "layers.0.mlp.experts", perhaps with a number
  int64_t stack = 0;
  Labels inner;  // of what is between up and down
};

class ExpertsWriter {
 public:
  ExpertsWriter(ModelWriter& out, const ExpertNames& names,
                int64_t intermediate, const std::string& at)
      : out_(out),
        names_(names),
        at_(at),
        hidden_(*out.config().hidden),
        inner_(intermediate),
        experts_(*out.config().experts),
        chosen_(*out.config().experts_per_token) {}

  std::string run(const std::string& x) {
    const std::string choices = route(x);
    GivenAttributes places = {{"experts", number(experts_)}};
    if (out_.input().pass.capacity) {
      places.emplace_back("capacity", number(*out_.input().pass.capacity));
    }
    const bool separate = !has("", names_.down);
    // Experts that are stacked may lie on an axis of the batch: who sends what
    // to whom follows from the weights, and no label could say both.
    const Labels labels = separate ? Labels{"", "BATCH", "", ""} : Labels{};
    const std::string sent =
        out_.op("dispatch", {x, choices}, at_ + ".dispatched", places, labels);
    const std::string answers = separate ? one_by_one(sent) : together(sent);
    return out_.op("combine", {answers, choices, at_ + ".shares"},
                   at_ + ".output", {}, {"BATCH", "LENGTH", ""});
  }

 private:
  bool has(const std::string& expert, std::string_view kernel) const {
    const std::string name =
        names_.experts + "." + expert + std::string(kernel);
    return out_.has(name + ".weight") || out_.has(name);
  }

  // The experts of every token, best first; their shares as `at`.shares.
  std::string route(const std::string& x) {
    const Labels labels = {"BATCH", "LENGTH", ""};
    const std::string logits = out_.linear(
        {x, "bs", names_.router, hidden_, experts_, at_ + ".router", labels});
    const std::string chances = out_.op("softmax", {logits}, at_ + ".chances");
    std::string choices =
        out_.op("top_k", {chances}, at_ + ".choices", {{"k", number(chosen_)}});
    const bool normalised = *out_.config().normalise_top_k;
    const std::string shares =
        out_.op("take", {chances, choices},
                at_ + (normalised ? ".shares:taken" : ".shares"));
    if (normalised) {
      const std::string sum = out_.op("sum", {shares}, at_ + ".shares:sum",
                                      {{"dims", std::vector<int64_t>{-1}}});
      out_.op("divide", {shares, sum}, at_ + ".shares");
    }
    return choices;
  }

  std::string together(const std::string& sent) {
    return mlp({sent, "ebc", at_, names_.experts, experts_, {}});
  }

  std::string one_by_one(const std::string& sent) {
    const ForwardPass& pass = out_.input().pass;
    const int64_t capacity = pass.capacity.value_or(pass.length);
    const Labels labels = {"BATCH", "", ""};
    std::vector<std::string> answers;
    for (int64_t e = 0; e < experts_ && out_.good(); ++e) {
      const std::string at = at_ + ".experts." + std::to_string(e);
      const std::string row =
          out_.op("slice", {sent}, at + ".input:row",
                  {{"dim", 0.0}, {"begin", number(e)}, {"end", number(e + 1)}});
      const std::string x =
          out_.op("reshape", {row}, at + ".input",
                  {{"shape", Shape{pass.batch, capacity, hidden_}}}, labels);
      const std::string weights = names_.experts + "." + std::to_string(e);
      const std::string answer =
          mlp({x, "bc", at, weights, 0, {"BATCH", "", "MLP_INTERMEDIATE"}});
      answers.push_back(
          out_.op("reshape", {answer}, answer + ":row",
                  {{"shape", Shape{1, pass.batch, capacity, hidden_}}}));
    }
    if (answers.size() == 1) return answers.front();
    return out_.op("concatenate", std::move(answers), at_ + ".answers",
                   {{"dim", 0.0}});
  }

  // Answers have no labels: where the down projection leaves partial sums,
  // what is added up is what the experts have said together.
  std::string mlp(const Expert& expert) {
    const auto [gate, up] = gate_and_up(expert);
    const std::string active = out_.activation(gate, expert.at + ".active");
    const std::string mixed = out_.op("multiply", {active, up},
                                      expert.at + ".hidden", {}, expert.inner);
    return out_.linear({mixed,
                        expert.dims,
                        name(expert, names_.down),
                        inner_,
                        hidden_,
                        expert.at + ".answer",
                        {},
                        false,
                        expert.stack});
  }

  static std::string name(const Expert& expert, std::string_view kernel) {
    return expert.weights + "." + std::string(kernel);
  }

  std::pair<std::string, std::string> gate_and_up(const Expert& expert) {
    const std::string gate = expert.at + ".gate";
    const std::string up = expert.at + ".up";
    // One matrix, the rows of gate before those of up (transformers 5).
    const std::string fused = name(expert, "gate_up_proj");
    if (out_.has(fused) || out_.has(fused + ".weight")) {
      const std::string both = out_.linear({expert.x,
                                            expert.dims,
                                            fused,
                                            hidden_,
                                            2 * inner_,
                                            expert.at + ".gate_up",
                                            {},
                                            false,
                                            expert.stack});
      out_.op("slice", {both}, gate,
              {{"dim", -1.0}, {"begin", 0.0}, {"end", number(inner_)}});
      out_.op("slice", {both}, up,
              {{"dim", -1.0},
               {"begin", number(inner_)},
               {"end", number(2 * inner_)}});
      return {gate, up};
    }
    for (const auto& [kernel, result] :
         {std::pair{names_.gate, gate}, std::pair{names_.up, up}}) {
      out_.linear({expert.x,
                   expert.dims,
                   name(expert, kernel),
                   hidden_,
                   inner_,
                   result,
                   {},
                   false,
                   expert.stack});
    }
    return {gate, up};
  }

  ModelWriter& out_;
  const ExpertNames& names_;
  const std::string& at_;
  int64_t hidden_;
  int64_t inner_;
  int64_t experts_;
  int64_t chosen_;
};

}  // namespace

std::string write_experts(ModelWriter& out, const ExpertNames& names,
                          int64_t intermediate, const std::string& at,
                          const std::string& x) {
  const ModelConfig& config = out.config();
  if (!config.experts || !config.experts_per_token ||
      *config.experts_per_token > *config.experts ||
      *config.experts_per_token < 1) {
    if (out.good()) {
      out.refuse("experts that a token goes to are not from 1 to all experts")
          .fact(count_text(config.experts_per_token.value_or(0)) + " of " +
                count_text(config.experts.value_or(0)));
    }
    return x;
  }
  return ExpertsWriter(out, names, intermediate, at).run(x);
}

}  // namespace shardplan
