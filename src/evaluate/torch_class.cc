// SPDX-License-Identifier: Apache-2.0
#include "evaluate/torch_class.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/words.h"
#include "model/config_classes.h"
#include "model/config_reader.h"

namespace shardplan {
namespace {

// Architectures whose norms multiply by their weight in float32.
constexpr std::array<std::string_view, 17> kFloatNorms = {
    "afmoe",      "cohere",  "cohere2",      "flex_olmo",
    "gemma",      "gemma2",  "gemma3_text",  "gpt_oss",
    "helium",     "olmo2",   "olmo3",        "olmo_hybrid",
    "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe_text",
    "vaultgemma"};
// Architectures that compute layer norms as several operations.
constexpr std::array<std::string_view, 3> kComposedNorms = {"cohere", "cohere2",
                                                            "cohere2_moe"};
// Architectures whose loss is computed in the dtype of logits, whatever their
// head. All but Whisper add a float32 bias to the logits.
constexpr std::array<std::string_view, 8> kPlainLoss = {
    "bart", "blenderbot", "blenderbot_small", "mbart",
    "mvp",  "pegasus",    "plbart",           "whisper"};
// Architectures that compute attention scores themselves.
constexpr std::array<std::string_view, 3> kScores = {"bloom", "gpt_oss", "mpt"};
// Architectures that did so up to transformers 5.17, but not in 5.24.
constexpr std::array<std::string_view, 5> kScoresOnce = {"codegen", "falcon",
                                                         "gptj", "t5", "umt5"};
// Architectures that do so in 5.24 but not in 5.17; MVP does in some parts.
constexpr std::array<std::string_view, 3> kScoresPerhaps = {"gemma2", "mvp",
                                                            "vaultgemma"};
// Name parts of architectures that use recurrent states instead of attention.
constexpr std::array<std::string_view, 14> kRecurrent = {
    "bamba",      "falcon_h1", "gla",   "hybrid",     "jamba",
    "lfm",        "linear",    "mamba", "nemotron_h", "qwen3_5",
    "qwen3_next", "recurrent", "rwkv",  "xlstm"};

// Config keys of dropout rates, by what is dropped: embeddings, the output of
// attention, the output of an MLP, attention scores, the output of the MLP's
// activation. Other architectures drop at most scores.
constexpr std::string_view kUsualScores = "attention_dropout";
struct DropoutKeys {
  std::array<std::string_view, 8> architectures;
  std::string_view embeddings, attention, mlp;
  std::string_view scores = kUsualScores;
  std::string_view hidden = {};
};
constexpr std::array<DropoutKeys, 15> kDropoutKeys = {
    {{{"gpt2", "gpt_bigcode", "gptj", "codegen"},
      "embd_pdrop",
      "resid_pdrop",
      "resid_pdrop",
      "attn_pdrop"},
     {{"phi"}, "embd_pdrop", "resid_pdrop", "resid_pdrop"},
     {{"phi3", "phimoe"}, "", "resid_pdrop", "resid_pdrop"},
     {{"gpt_neo"}, "embed_dropout", "resid_dropout", "resid_dropout"},
     {{"gpt_neox"}, "hidden_dropout", "hidden_dropout", "hidden_dropout"},
     {{"bloom", "falcon"}, "", "hidden_dropout", "hidden_dropout"},
     {{"stablelm", "persimmon"}, "", "", "hidden_dropout"},
     {{"mpt"},
      "",
      "attn_config.attn_pdrop",
      "attn_config.attn_pdrop",
      "attn_config.attn_pdrop"},
     {{"opt"}, "", "dropout", "dropout"},
     {{"bart", "mbart", "mvp", "pegasus", "plbart", "blenderbot",
       "blenderbot_small", "whisper"},
      "dropout",
      "dropout",
      "dropout",
      kUsualScores,
      "activation_dropout"},
     {{"distilbert"}, "dropout", "", "dropout"},
     {{"bert", "roberta", "data2vec_text", "vit"},
      "hidden_dropout_prob",
      "hidden_dropout_prob",
      "hidden_dropout_prob",
      "attention_probs_dropout_prob"},
     {{"starcoder2"},
      "embedding_dropout",
      "residual_dropout",
      "residual_dropout"},
     {{"seed_oss"}, "", "residual_dropout", "residual_dropout"},
     {{"t5", "umt5"},
      "dropout_rate",
      "dropout_rate",
      "dropout_rate",
      "dropout_rate",
      "dropout_rate"}}};

// Returns whether the config's rate is above zero, or the class's default if
// the config has no such key.
bool drops(const ForwardDefinition& model, std::string_view key) {
  if (key.empty()) return false;
  std::optional<Node> value = value_at(model.map(), key);
  if (!value) {
    const auto type = model.map().find("model_type");
    const auto known = type ? find_config_class(type->text()) : nullptr;
    if (known != nullptr) value = known->default_of(key, false);
  }
  return value && value->number().value_or(0) > 0;
}

// Returns what a class drops: what the config says, or everything that the
// class can drop if dropout is requested. `all` stands for unknown classes.
Dropout dropout_of(const ForwardDefinition& model, bool asked,
                   const Dropout& all) {
  const auto* const keys =
      std::ranges::find_if(kDropoutKeys, [&](const DropoutKeys& row) {
        return contains(row.architectures, model.architecture->name);
      });
  const bool is_known = keys != kDropoutKeys.end();
  if (asked && !is_known) return all;
  const auto is_dropped = [&](std::string_view key) {
    return asked ? !key.empty() : drops(model, key);
  };
  Dropout dropout;
  dropout.scores = is_dropped(is_known ? keys->scores : kUsualScores);
  dropout.adapters = asked;
  if (!is_known) return dropout;
  dropout.embeddings = is_dropped(keys->embeddings);
  dropout.attention = is_dropped(keys->attention);
  dropout.mlp = is_dropped(keys->mlp);
  dropout.hidden = is_dropped(keys->hidden);
  return dropout;
}

bool is_recurrent(const ForwardDefinition& model) {
  return std::ranges::any_of(kRecurrent, [&](std::string_view part) {
    return contains(std::string_view(model.architecture->name), part);
  });
}

// Returns the copies of the logits that a loss makes: log-probabilities and the
// gradients of both. Either the logits are first copied to float32
// (ForCausalLMLoss), or log_softmax reads them directly under autocast and
// returns a gradient in their dtype.
LossCopies loss_copies(const ForwardDefinition& model, bool autocast) {
  const std::string_view name = model.architecture->name;
  const std::string& head = model.model_class->class_name;
  if (contains(kPlainLoss, name)) {
    return autocast && name != "whisper" ? LossCopies{0, 3} : LossCopies{3, 0};
  }
  if (head.ends_with("ForCausalLM") || head.ends_with("LMHeadModel")) {
    return {0, 3};
  }
  return autocast ? LossCopies{1, 2} : LossCopies{3, 0};
}

void choose_attention(std::string_view name, SegmentOptions& how) {
  if (how.attention == AttentionKind::Scores) return;  // as requested
  if (contains(kScoresOnce, name) || contains(kScores, name)) {
    how.attention = AttentionKind::Scores;
  }
  if (contains(kScoresOnce, name) || how.scores_of_grouped_heads) {
    how.attention_at_least = AttentionKind::Flash;
  }
  if (contains(kScoresPerhaps, name)) {
    how.attention_at_most = AttentionKind::Scores;
  }
}

}  // namespace

bool runs_known_operations(const ForwardDefinition& model) {
  const auto softcap = model_value(model, "softcap");
  return model_size(model, "experts").value_or(0) == 0 &&
         !(softcap && softcap->as_real() > 0) && !is_recurrent(model);
}

void run_torch_class(const ForwardDefinition& model, bool on_cpu,
                     StepOptions& step) {
  if (!model.has_config || model.model_class == nullptr) return;
  SegmentOptions& how = step.segments;
  if (step.kernels == Kernels::Fused) {
    how.loss[1] = {3, 0};
    return;
  }
  const std::string_view name = model.architecture->name;
  const bool is_narrow = how.element_bytes < kFloatBytes;
  how.recurrence_in_kernels = is_recurrent(model);
  how.is_eager = how.runs_in_order = !how.recurrence_in_kernels;
  how.norms_read_copies = true;
  how.norms_round_first = !contains(kFloatNorms, name);
  how.layer_norm_is_several = contains(kComposedNorms, name);
  how.layer_norm_in_float32 = name == "olmo";
  how.kernels_repeat_heads = on_cpu;
  how.scores_of_grouped_heads = !on_cpu && !is_narrow;
  how.repeats_heads = how.scores_of_grouped_heads;
  how.softmax_in_float32 = is_narrow && name != "gpt_oss";
  if (step.drops_out.value_or(true)) {
    how.dropout = dropout_of(model, step.drops_out.has_value(), how.dropout);
  }
  how.dropout.wide_masks = on_cpu;
  choose_attention(name, how);
  // No attention kernel on a CPU supports dropout.
  if (on_cpu && how.dropout.scores) how.attention = AttentionKind::Scores;
  how.autocast_skips_experts = name != "llama4" && name != "llama4_text";
  const auto experts = model_size(model, "experts");
  const auto chosen = model_size(model, "experts_per_token");
  if (!how.autocast_skips_experts && experts && chosen && *chosen > 0) {
    // Every expert computes every token.
    how.expert_factor *=
        static_cast<double>(*experts) / static_cast<double>(*chosen);
  }
  const auto activation = model_value(model, "activation");
  // A single kernel, or a custom function that saves its input (BloomGelu).
  if (name == "bloom" ||
      (activation && activation->text == "gelu_pytorch_tanh")) {
    how.gelu_steps = 0;
  }
  // A program may hold on to its logits.
  const LossCopies copies = loss_copies(model, how.autocast);
  how.loss[1] = copies;
  how.loss[2] = {copies.own + 1, copies.floats};
  if (how.is_eager) how.loss[0] = copies;
}

}  // namespace shardplan
