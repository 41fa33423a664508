// SPDX-License-Identifier: Apache-2.0
#include "evaluate/torch_class.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/words.h"

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

bool copies_logits(const ForwardDefinition& model) {
  if (contains(kPlainLoss, model.architecture->name)) return false;
  const std::string& head = model.model_class->class_name;
  return head.ends_with("ForCausalLM") || head.ends_with("LMHeadModel");
}

}  // namespace

bool runs_known_operations(const ForwardDefinition& model) {
  const auto softcap = model_value(model, "softcap");
  return model_size(model, "experts").value_or(0) == 0 &&
         !(softcap && softcap->as_real() > 0) &&
         std::ranges::none_of(kRecurrent, [&](std::string_view part) {
           return contains(std::string_view(model.architecture->name), part);
         });
}

void run_torch_class(const ForwardDefinition& model, bool on_cpu,
                     StepOptions& step) {
  if (!model.has_config || model.model_class == nullptr) return;
  SegmentOptions& how = step.segments;
  const std::string_view name = model.architecture->name;
  const bool is_narrow = how.element_bytes < kFloatBytes;
  step.is_eager = runs_known_operations(model);
  how.norms_read_copies = true;
  how.norms_round_first = !contains(kFloatNorms, name);
  how.kernels_repeat_heads = on_cpu;
  how.scores_of_grouped_heads = !on_cpu && !is_narrow;
  how.repeats_heads = how.scores_of_grouped_heads;
  how.softmax_in_float32 = is_narrow;
  if (name == "t5" || name == "umt5") how.attention = AttentionKind::Scores;
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
