// SPDX-License-Identifier: Apache-2.0
#include "model/naming/lora_targets.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// Models whose kernels read this weight directly, so PEFT refuses to adapt it
// (0.21, tuners_utils.py).
constexpr std::string_view kScans =
    "falcon_h1 mamba mamba2 falcon_mamba nemotron_h";
constexpr std::string_view kUnadaptable = "out_proj";

constexpr std::string_view kStackOfBoth = "gate_up_proj";
constexpr std::string_view kStackDown = "down_proj";

// The names that PEFT converts to those of stacks, by model type
// (_MOE_TARGET_MODULE_MAPPING; types: transformers 5.24,
// conversion_mapping.py).
struct ExpertNames {
  std::string_view types;
  std::string_view gate;
  std::string_view up;
  std::string_view down;
};
constexpr std::string_view kRouter = "gate";
constexpr std::array<ExpertNames, 2> kConverted = {
    {{"mixtral minimax minimax_m2", "w1", "w3", "w2"},
     {"afmoe deepseek_v2 deepseek_v3 deepseek_v32 dots1 ernie4_5_moe glm4_moe "
      "glm4_moe_lite glm_moe_dsa glm4v_moe solar_open qwen3_moe qwen3_next "
      "hunyuan_v1_moe flex_olmo olmoe exaone_moe cohere2_moe mellum",
      "gate_proj", "up_proj", "down_proj"}}};
// Other model types with experts: those whose router is not a linear layer, and
// those whose router is.
constexpr std::string_view kPlainRouters =
    "gpt_oss qwen2_moe granitemoe granitemoeshared granitemoehybrid jamba "
    "qwen3_5_moe qwen3_5_moe_text mimo_v2_flash laguna";
constexpr std::string_view kLinearRouters = "phimoe llama4 llama4_text";

const ExpertNames* converted(std::string_view model_type) {
  const auto found =
      std::ranges::find_if(kConverted, [&](const ExpertNames& each) {
        return has_word(each.types, model_type);
      });
  return found == kConverted.end() ? nullptr : found;
}

// Returns "q_proj" for "model.layers.3.self_attn.q_proj".
std::string end_of(std::string_view module) {
  return std::string(module.substr(module.rfind('.') + 1));
}

// Returns whether a target names a stack as a parameter:
// "mlp.experts.down_proj".
bool names_stack(std::string_view target) {
  return is_named_by(target, "experts." + std::string(kStackOfBoth)) ||
         is_named_by(target, "experts." + std::string(kStackDown));
}

bool knows_experts(std::string_view model_type) {
  return converted(model_type) != nullptr ||
         has_word(kPlainRouters, model_type) ||
         has_word(kLinearRouters, model_type);
}

}  // namespace

LoraTargets::LoraTargets(const Lora& lora, std::string_view model_type)
    : lora_(&lora), model_type_(model_type), all_(lora.targets.empty()) {
  const ExpertNames* const names = converted(model_type);
  if (all_) {
    if (names == nullptr) return;
    gate_up_ = 2;
    down_ = 1;
    router_ = true;
    for (const std::string_view name :
         {names->gate, names->up, names->down, kRouter}) {
      meant_for_experts_.emplace(name);
    }
    return;
  }
  bool gate = false;
  bool up = false;
  for (const std::string& target : lora.targets) {
    const auto means = [&](std::string_view name) {
      return names != nullptr && is_named_by(target, name);
    };
    if (names_stack(target)) {
      stacks_.push_back(target);
      continue;
    }
    if (means(kRouter)) {
      router_ = true;
    } else if (names != nullptr && means(names->gate)) {
      gate = true;
    } else if (names != nullptr && means(names->up)) {
      up = true;
    } else if (names != nullptr && means(names->down)) {
      down_ = 1;
    } else {
      modules_.push_back(target);
      continue;
    }
    meant_for_experts_.insert(target);
  }
  if (gate && up) gate_up_ = 2;
  if (gate != up) half_ = gate ? names->up : names->gate;
}

// Returns whether a target names the layer, and records the targets that do.
bool LoraTargets::is_target(const std::string& in_memory) {
  bool adapted = all_ && !meant_for_experts_.contains(end_of(in_memory));
  for (const std::string& target : modules_) {
    if (!is_named_by(in_memory, target)) continue;
    found_.insert(target);
    adapted = true;
  }
  return adapted;
}

bool LoraTargets::is_router_target(const LoraSite& site) {
  const std::string end = end_of(site.in_memory);
  const bool is_converted = converted(model_type_) != nullptr;
  if (site.kind == LoraSite::Kind::Parameter) {
    others_.insert(end);
    return false;
  }
  const bool is_linear =
      is_converted ? end != kRouter : has_word(kLinearRouters, model_type_);
  if (is_linear) {
    linear_.insert(end);
    return is_target(site.in_memory);
  }
  if (is_converted || has_word(kPlainRouters, model_type_)) {
    others_.insert(end);
  } else if (is_target(site.in_memory)) {
    unknown_ = site.path;
  }
  return false;
}

bool LoraTargets::adapts(const LoraSite& site) {
  using Kind = LoraSite::Kind;
  if (site.kind == Kind::Expert) return false;
  bool adapted = false;
  if (router_ && end_of(site.in_memory) == kRouter) {
    // PEFT targets the router's weight by name, regardless of the module's
    // class.
    for (const std::string& target : meant_for_experts_) {
      if (is_named_by(target, kRouter)) found_.insert(target);
    }
    adapted = true;
  } else if (site.kind == Kind::Router || site.kind == Kind::Parameter) {
    adapted = is_router_target(site);
  } else {
    linear_.insert(end_of(site.in_memory));
    adapted = is_target(site.in_memory);
    // `all-linear` does not adapt these.
    if (all_ && site.kind == Kind::Output) adapted = false;
  }
  if (!adapted) return false;
  any_ = true;
  // Each of several modules in memory would get its own adapters.
  if (contains(site.in_memory, '|')) joined_ = site.path;
  unadaptable_ |= is_named_by(site.in_memory, kUnadaptable);
  return true;
}

void LoraTargets::pass_by(const std::string& in_memory) {
  others_.insert(end_of(in_memory));
}

void LoraTargets::meet_expert(const LoraSite& site, ExpertWeight weight) {
  if (!knows_experts(model_type_) && is_target(site.in_memory)) {
    unknown_ = site.path;
    return;
  }
  const std::string end = end_of(site.in_memory);
  const ExpertNames* const names = converted(model_type_);
  const bool is_half =
      names != nullptr && (end == names->gate || end == names->up);
  if (is_half || end == kStackOfBoth) {
    // Gate and up form one matrix. Sharding it would separate one from the
    // other.
    if (is_half) weight.out *= 2;
    weight.out_kind = {};
    gate_up_weight_ = std::move(weight);
  } else if (end == kStackDown || (names != nullptr && end == names->down)) {
    down_weight_ = std::move(weight);
  }
}

std::vector<StackAdapters> LoraTargets::leave_experts(
    const std::string& in_memory, int64_t experts) {
  std::vector<StackAdapters> result;
  const auto add = [&](std::optional<ExpertWeight>& weight, int64_t times,
                       std::string_view name) {
    const std::string stack = in_memory + "." + std::string(name);
    for (const std::string& target : stacks_) {
      if (!is_named_by(stack, target)) continue;
      found_.insert(target);
      times = std::max<int64_t>(times, 1);
    }
    if (times == 0) return;
    const auto rank = checked_mul(lora_->rank * times, experts);
    if (!weight || !rank) {
      unknown_ = stack;
      return;
    }
    result.push_back({"", *rank, *std::move(weight)});
    for (const std::string& target : meant_for_experts_) {
      if (!is_named_by(target, kRouter)) found_.insert(target);
    }
    any_ = any_stack_ = true;
  };
  add(gate_up_weight_, gate_up_, kStackOfBoth);
  add(down_weight_, down_, kStackDown);
  // The first wrapper is inside the second one.
  if (result.size() == 2) result.front().at = ".base_layer";
  gate_up_weight_.reset();
  down_weight_.reset();
  return result;
}

std::string LoraTargets::linear_text() const {
  return "`" + joined_of(linear_, "`, `", std::identity()) + "`";
}

std::optional<LoraProblem> LoraTargets::problem() const {
  const std::string others = "name other layers in `targets`: " + linear_text();
  if (!half_.empty()) {
    return LoraProblem{"",
                       "`--lora` adapts only one of gate and up of experts, "
                       "which are one matrix in memory",
                       "PEFT adapts both or none",
                       "also name " + in_backticks(half_) + " in `targets`"};
  }
  if (any_stack_ && !packed_.empty()) {
    return LoraProblem{"quantization_config",
                       "`--lora` matches " + in_backticks(packed_) +
                           ", which is stored quantised: PEFT adapters for it "
                           "are not supported",
                       "transformers dequantises MXFP4 for that "
                       "(`Mxfp4Config(dequantize=True)`)",
                       "remove the quantisation from the config, or name "
                       "layers outside the experts"};
  }
  if (!unknown_.empty()) {
    return LoraProblem{"",
                       "`--lora` matches " + in_backticks(unknown_) +
                           ": PEFT adapters for it are not supported",
                       "experts are stacked since transformers 5, and their "
                       "router is usually not a linear layer",
                       "name layers outside the experts, e.g. "
                       "`targets=q_proj+k_proj+v_proj+o_proj`; there are " +
                           linear_text()};
  }
  const auto other =
      std::ranges::find_if(lora_->targets, [&](const std::string& target) {
        return !found_.contains(target) && others_.contains(end_of(target));
      });
  if (other != lora_->targets.end()) {
    return LoraProblem{"",
                       "`--lora` adapts " + in_backticks(*other) +
                           ", which is not a linear layer: PEFT adapters for "
                           "it are not supported",
                       "", others};
  }
  if (!joined_.empty()) {
    return LoraProblem{"",
                       "`--lora` adapts " + in_backticks(joined_) +
                           ", which is several modules in memory",
                       "", others};
  }
  if (!any_) {
    return LoraProblem{"",
                       "`--lora` adapts nothing: no linear layer is named `" +
                           joined(lora_->targets, "` or `") + "`",
                       "the model's linear layers: " + linear_text(), ""};
  }
  if (unadaptable_ && has_word(kScans, model_type_)) {
    return LoraProblem{
        "model_type",
        "PEFT does not adapt `out_proj` of a " + in_backticks(model_type_), "",
        others};
  }
  return std::nullopt;
}

std::vector<std::string> LoraTargets::remarks() const {
  std::vector<std::string> result;
  for (const std::string& target : lora_->targets) {
    if (found_.contains(target)) continue;
    result.push_back("no linear layer is named " + in_backticks(target) +
                     ", so PEFT ignores it; there are " + linear_text());
  }
  return result;
}

}  // namespace shardplan
