// SPDX-License-Identifier: Apache-2.0
#include "graph/decoder.h"

#include <cmath>
#include <utility>

#include "base/text.h"
#include "core/facts.h"
#include "graph/attention.h"

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
    x = norm("norm", hidden_, x, "norm");
    logits(x);
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
    if (rope.partial && *rope.partial != 1) {
      attributes.emplace_back(
          "rotary_dim", std::floor(number(heads_.head_dim) * *rope.partial));
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
  sizes.layers = "layers";
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

}  // namespace shardplan
