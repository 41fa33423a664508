// SPDX-License-Identifier: Apache-2.0
#include "io/formats/hf_families/windows.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace shardplan {
namespace {

// Keys by which families without `layer_types` mix attention with layers of
// another kind.
constexpr std::string_view kHybridKeys[] = {
    "attn_layer_indices", "attn_layer_period", "full_attention_interval",
    "hybrid_override_pattern", "layers_block_type"};

// Which layers see a window only, where `layer_types` does not list them.
enum class Sliding : uint8_t {
  None,        // the family knows no windows
  All,         // where `sliding_window` is a number
  After,       // from layer `max_window_layers` on
  EveryOther,  // the first does
  Pattern,     // all but every `sliding_window_pattern`-th
};
struct WindowRule {
  std::string_view model_type = {};
  Sliding layers = Sliding::None;
  int64_t absent = 0;     // where `sliding_window` is absent; 0: no window
  bool switched = false;  // only where `use_sliding_window` is true
};

// The families of hf_families() that have windows, with the defaults of their
// configuration classes.
constexpr WindowRule kRules[] = {
    {"mistral", Sliding::All, 4096},
    {"mixtral", Sliding::All},
    {"qwen2", Sliding::After, 4096, true},
    {"qwen3", Sliding::After, 4096, true},
    {"qwen3_moe", Sliding::All, 4096, true},
    {"gemma2", Sliding::EveryOther, 4096},
    {"gemma3_text", Sliding::Pattern, 4096},
    {"gemma3", Sliding::Pattern, 4096},
    {"gpt_oss", Sliding::EveryOther, 128},
};

WindowRule rule_of(const HfFamily* family) {
  if (family == nullptr) return {};
  for (const WindowRule& rule : kRules) {
    if (rule.model_type == family->model_type) return rule;
  }
  return {};
}

std::optional<int64_t> positive(const Node& config, std::string_view key) {
  const auto value = config.find(key);
  const auto number = value ? value->integer() : std::nullopt;
  return number && *number > 0 ? number : std::nullopt;
}

// `sliding_window` as the class reads it; 0: no layer has one.
int64_t window_of(const Node& config, const WindowRule& rule) {
  if (rule.switched) {
    const auto use = config.find("use_sliding_window");
    if (!use || !use->boolean().value_or(false)) return 0;
  }
  if (!config.find("sliding_window")) return rule.absent;
  return positive(config, "sliding_window").value_or(0);
}

// What a word of `layer_types` means.
int64_t window_of_type(std::string_view type, int64_t window,
                       const Node& config) {
  if (type == "full_attention" || type == "attention") return 0;
  if (type == "sliding_attention" && window > 0) return window;
  if (type == "chunked_attention") {
    return positive(config, "attention_chunk_size").value_or(kUnknownWindow);
  }
  return kUnknownWindow;
}

bool slides(Sliding rule, int64_t layer, const Node& config) {
  switch (rule) {
    case Sliding::All:
      return true;
    case Sliding::After: {
      const auto first = config.find("max_window_layers");
      return layer >= (first ? first->integer().value_or(28) : 28);
    }
    case Sliding::EveryOther:
      return layer % 2 == 0;
    case Sliding::Pattern:
      return (layer + 1) %
                 positive(config, "sliding_window_pattern").value_or(6) !=
             0;
    case Sliding::None:
      break;
  }
  return false;
}

std::vector<int64_t> windows_by_rule(const Node& config, const WindowRule& rule,
                                     int64_t layers) {
  const int64_t window = window_of(config, rule);
  std::vector<int64_t> windows(static_cast<size_t>(layers));
  for (int64_t i = 0; i < layers; ++i) {
    if (slides(rule.layers, i, config)) {
      windows[static_cast<size_t>(i)] = window;
    }
  }
  return windows;
}

// What a family that we do not know says of layers that keep no keys and values
// of their own.
void mark_unknown(const Node& config, std::vector<int64_t>& windows) {
  const bool listed = config.find("layer_types").has_value();
  const bool hybrid = std::any_of(
      std::begin(kHybridKeys), std::end(kHybridKeys),
      [&](std::string_view key) { return config.find(key).has_value(); });
  const auto end = static_cast<int64_t>(windows.size());
  int64_t unknown = positive(config, "num_kv_shared_layers").value_or(0);
  if (hybrid && !listed) unknown = end;
  std::fill(windows.begin() + std::max<int64_t>(0, end - unknown),
            windows.end(), kUnknownWindow);
}

}  // namespace

std::vector<int64_t> layer_windows(const Node& config, const HfFamily* family,
                                   int64_t layers) {
  const WindowRule rule = rule_of(family);
  if (family != nullptr && rule.layers == Sliding::None) return {};
  if (layers > kMaxCount) return {};
  std::vector<int64_t> windows;
  const auto types = config.find("layer_types");
  if (types && types->is_list()) {
    const int64_t window = window_of(config, rule);
    for (size_t i = 0; i < types->size(); ++i) {
      windows.push_back(window_of_type(types->item(i).text(), window, config));
    }
  } else {
    windows = windows_by_rule(config, rule, layers);
  }
  if (family == nullptr) mark_unknown(config, windows);
  const bool all_see_all = std::all_of(windows.begin(), windows.end(),
                                       [](int64_t w) { return w == 0; });
  return all_see_all ? std::vector<int64_t>() : windows;
}

}  // namespace shardplan
