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

// Architectures whose norms multiply with their weight in float32.
constexpr std::array<std::string_view, 17> kFloatNorms = {
    "afmoe",      "cohere",  "cohere2",      "flex_olmo",
    "gemma",      "gemma2",  "gemma3_text",  "gpt_oss",
    "helium",     "olmo2",   "olmo3",        "olmo_hybrid",
    "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe_text",
    "vaultgemma"};
// Those whose loss is computed in the dtype of logits, whatever their head.
constexpr std::array<std::string_view, 8> kPlainLoss = {
    "bart", "blenderbot", "blenderbot_small", "mbart",
    "mvp",  "pegasus",    "plbart",           "whisper"};
// Parts of the names of those with states in place of attention.
constexpr std::array<std::string_view, 14> kRecurrent = {
    "bamba",      "falcon_h1", "gla",   "hybrid",     "jamba",
    "lfm",        "linear",    "mamba", "nemotron_h", "qwen3_5",
    "qwen3_next", "recurrent", "rwkv",  "xlstm"};

// Keys of a config that say how much is dropped out, by what it is dropped of:
// architectures, embeddings, what attention adds, what an MLP adds, what its
// activation gives, scores. Others drop scores alone, if anything.
struct DropoutKeys {
  std::array<std::string_view, 8> architectures;
  std::string_view embeddings, attention, mlp, hidden, scores;
};
constexpr std::string_view kUsualScores = "attention_dropout";
constexpr std::array<DropoutKeys, 15> kDropoutKeys = {
    {{{"gpt2", "gpt_bigcode", "gptj", "codegen"},
      "embd_pdrop",
      "resid_pdrop",
      "resid_pdrop",
      "",
      "attn_pdrop"},
     {{"phi"}, "embd_pdrop", "resid_pdrop", "resid_pdrop", "", kUsualScores},
     {{"phi3", "phimoe"}, "", "resid_pdrop", "resid_pdrop", "", kUsualScores},
     {{"gpt_neo"},
      "embed_dropout",
      "resid_dropout",
      "resid_dropout",
      "",
      kUsualScores},
     {{"gpt_neox"},
      "hidden_dropout",
      "hidden_dropout",
      "hidden_dropout",
      "",
      kUsualScores},
     {{"bloom", "falcon"},
      "",
      "hidden_dropout",
      "hidden_dropout",
      "",
      kUsualScores},
     {{"stablelm", "persimmon"}, "", "", "hidden_dropout", "", kUsualScores},
     {{"mpt"},
      "",
      "attn_config.attn_pdrop",
      "attn_config.attn_pdrop",
      "",
      "attn_config.attn_pdrop"},
     {{"opt"}, "", "dropout", "dropout", "", kUsualScores},
     {{"bart", "mbart", "mvp", "pegasus", "plbart", "blenderbot",
       "blenderbot_small", "whisper"},
      "dropout",
      "dropout",
      "dropout",
      "activation_dropout",
      kUsualScores},
     {{"distilbert"}, "dropout", "", "dropout", "", kUsualScores},
     {{"bert", "roberta", "data2vec_text", "vit"},
      "hidden_dropout_prob",
      "hidden_dropout_prob",
      "hidden_dropout_prob",
      "",
      "attention_probs_dropout_prob"},
     {{"starcoder2"},
      "embedding_dropout",
      "residual_dropout",
      "residual_dropout",
      "",
      kUsualScores},
     {{"seed_oss"},
      "",
      "residual_dropout",
      "residual_dropout",
      "",
      kUsualScores},
     {{"t5", "umt5"},
      "dropout_rate",
      "dropout_rate",
      "dropout_rate",
      "dropout_rate",
      "dropout_rate"}}};

// What the config says, or its class where it says nothing.
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

// What a class drops: all that it can where that is asked for, which is `all`
// of others, else what the config says.
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

bool copies_logits(const ForwardDefinition& model) {
  if (contains(kPlainLoss, model.architecture->name)) return false;
  const std::string& head = model.model_class->class_name;
  return head.ends_with("ForCausalLM") || head.ends_with("LMHeadModel");
}

}  // namespace

void run_torch_class(const ForwardDefinition& model, bool on_cpu,
                     StepOptions& step) {
  if (!model.has_config || model.model_class == nullptr) return;
  SegmentOptions& how = step.segments;
  const std::string_view name = model.architecture->name;
  const bool is_narrow = how.element_bytes < kFloatBytes;
  const auto softcap = model_value(model, "softcap");
  step.is_eager = model_size(model, "experts").value_or(0) == 0 &&
                  !(softcap && softcap->as_real() > 0) &&
                  std::ranges::none_of(kRecurrent, [&](std::string_view part) {
                    return contains(name, part);
                  });
  how.norms_read_copies = true;
  how.norms_round_first = !contains(kFloatNorms, name);
  how.kernels_repeat_heads = on_cpu;
  how.scores_of_grouped_heads = !on_cpu && !is_narrow;
  how.repeats_heads = how.scores_of_grouped_heads;
  how.softmax_in_float32 = is_narrow;
  if (step.drops_out.value_or(true)) {
    how.dropout = dropout_of(model, step.drops_out.has_value(), how.dropout);
  }
  how.dropout.wide_masks = on_cpu;
  // On a CPU no kernel of attention drops anything out.
  if (name == "t5" || name == "umt5" || (on_cpu && how.dropout.scores)) {
    how.attention = AttentionKind::Scores;
  }
  const auto activation = model_value(model, "activation");
  if (activation && activation->text == "gelu_pytorch_tanh") how.gelu_steps = 0;
  // Logarithms of probabilities and the gradients of both; a program may hold
  // on to its logits.
  const bool in_float32 = copies_logits(model) || how.autocast;
  const LossCopies copies = in_float32 ? LossCopies{0, 3} : LossCopies{3, 0};
  how.loss[1] = copies;
  how.loss[2] = {copies.own + 1, copies.floats};
  if (step.is_eager) how.loss[0] = copies;
}

}  // namespace shardplan
