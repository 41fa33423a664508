// SPDX-License-Identifier: Apache-2.0
#include "io/hf_config/model_type.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"

namespace shardplan {

ConfigReader::ConfigReader(const Node& map, std::string path,
                           Diagnostics& diags)
    : map_(map),
      path_(std::move(path)),
      diags_(diags),
      errors_before_(diags.count(Severity::Error)) {}

bool ConfigReader::ok() const {
  return diags_.count(Severity::Error) == errors_before_;
}

Span ConfigReader::place(std::string_view key) const {
  if (const auto value = map_.find(key)) return value->span();
  const Span map = map_.span();
  return {map.file, map.begin, std::min(map.begin + 1, map.end)};
}

Diagnostics::Builder ConfigReader::refuse(std::string_view key,
                                          std::string message) {
  return diags_.error(Code::UnsupportedConfig, place(key), std::move(message));
}

Diagnostics::Builder ConfigReader::ill_typed(std::string_view key,
                                             const Node& value,
                                             std::string_view wanted) {
  return diags_.error(Code::MalformedDocument, value.span(),
                      "`" + path_ + std::string(key) + "` must be " +
                          std::string(wanted) + ", not " +
                          std::string(kind_name(value.kind())));
}

std::optional<Node> ConfigReader::find(std::string_view key) const {
  const auto value = map_.find(key);
  if (!value || value->is_null()) return std::nullopt;
  return value;
}

int64_t ConfigReader::bounded(std::string_view key, int64_t least, int64_t most,
                              const Fallback& fallback) {
  const std::string shown = "`" + path_ + std::string(key) + "`";
  const auto value = map_.find(key);
  if (!value) {
    if (!fallback.absent) refuse(key, shown + " is missing");
    return fallback.absent.value_or(least);
  }
  if (value->is_null()) {
    if (!fallback.null) refuse(key, shown + " is null");
    return fallback.null.value_or(least);
  }
  if (value->kind() != NodeKind::Integer) {
    ill_typed(key, *value, kind_name(NodeKind::Integer));
    return least;
  }
  const std::optional<int64_t> number = value->integer();
  if (!number || *number < least || *number > most) {
    refuse(key, shown + " is " + std::string(value->text()))
        .fact("it may be " + count_text(least) + " to " + count_text(most));
    return least;
  }
  return *number;
}

int64_t ConfigReader::size(std::string_view key, const Fallback& fallback) {
  return bounded(key, 1, kMaxSize, fallback);
}

int64_t ConfigReader::count(std::string_view key, int64_t least,
                            const Fallback& fallback) {
  return bounded(key, least, kMaxCount, fallback);
}

bool ConfigReader::flag(std::string_view key, bool absent) {
  const auto value = map_.find(key);
  if (!value) return absent;
  const std::optional<bool> flag = value->boolean();
  if (!flag) ill_typed(key, *value, kind_name(NodeKind::Bool));
  return flag.value_or(absent);
}

double ConfigReader::positive(std::string_view key, double absent) {
  const auto value = find(key);
  if (!value) return absent;
  const std::optional<double> number = value->number();
  if (!number) {
    ill_typed(key, *value, kind_name(NodeKind::Real));
    return absent;
  }
  if (!std::isfinite(*number) || *number <= 0) {
    refuse(key, "`" + path_ + std::string(key) + "` is " +
                    std::string(value->text()))
        .fact("it must be more than 0");
    return absent;
  }
  return *number;
}

std::string ConfigReader::text(std::string_view key) {
  const auto value = find(key);
  if (!value) return "";
  if (!value->is_string()) {
    ill_typed(key, *value, kind_name(NodeKind::String));
    return "";
  }
  return std::string(value->text());
}

std::vector<int64_t> ConfigReader::integers(std::string_view key) {
  std::vector<int64_t> numbers;
  const auto list = find(key);
  if (!list) return numbers;
  if (!list->is_list()) ill_typed(key, *list, kind_name(NodeKind::List));
  for (size_t i = 0; i < list->size(); ++i) {
    const Node item = list->item(i);
    const std::optional<int64_t> number = item.integer();
    if (!number) {
      ill_typed(key, item, "a list of integers");
      break;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<ConfigReader> ConfigReader::section(std::string_view key) {
  const auto value = find(key);
  if (!value) {
    return refuse(key, "`" + path_ + std::string(key) + "` is missing");
  }
  if (!value->is_map()) {
    return ill_typed(key, *value, kind_name(NodeKind::Map));
  }
  return ConfigReader(*value, path_ + std::string(key) + ".", diags_);
}

bool TensorWriter::begin(int64_t layers, int64_t per_layer) {
  if (!config_.ok()) return false;
  const std::optional<int64_t> tensors = checked_mul(layers, per_layer);
  if (tensors && *tensors <= kMaxTensors) return true;
  config_.refuse("", "the model would have too many tensors")
      .fact(count_text(layers) + " layers with up to " + count_text(per_layer) +
            " tensors each")
      .fact("the limit is " + count_text(kMaxTensors));
  return false;
}

void TensorWriter::add(std::string_view name, const TensorType& type,
                       bool buffer) {
  if (!config_.ok()) return;  // reported once
  if (manifest_.add(name, type, Span{}, buffer)) return;
  config_.refuse("", "the model's size exceeds 63 bits")
      .fact("at " + in_backticks(name) + ", " + type_text(type));
}

void TensorWriter::tensor(std::string_view name, Shape shape) {
  add(name, {dtype_, std::move(shape)}, false);
}

void TensorWriter::tensor(std::string_view name, DType dtype, Shape shape) {
  add(name, {dtype, std::move(shape)}, false);
}

void TensorWriter::buffer(std::string_view name, DType dtype, Shape shape) {
  add(name, {dtype, std::move(shape)}, true);
}

void TensorWriter::linear(const std::string& name, int64_t out, int64_t in,
                          bool bias) {
  tensor(name + ".weight", {out, in});
  if (bias) tensor(name + ".bias", {out});
}

void TensorWriter::norm(const std::string& name, int64_t size) {
  tensor(name + ".weight", {size});
}

void TensorWriter::layer_norm(const std::string& name, int64_t size) {
  tensor(name + ".weight", {size});
  tensor(name + ".bias", {size});
}

void TensorWriter::embedding(const std::string& name, int64_t rows,
                             int64_t size) {
  tensor(name + ".weight", {rows, size});
}

namespace {

// Keys by which model types without `layer_types` mix attention with layers of
// another kind.
constexpr std::string_view kHybridKeys[] = {
    "attn_layer_indices", "attn_layer_period", "full_attention_interval",
    "hybrid_override_pattern", "layers_block_type"};

// Which layers see a window only, where `layer_types` does not list them.
enum class Sliding : uint8_t {
  None,        // the model type knows no windows
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

// The model types of kModelTypes (manifest.cc) that have windows, with the
// defaults of their configuration classes.
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

WindowRule rule_of(const HfModelType* row) {
  if (row == nullptr) return {};
  for (const WindowRule& rule : kRules) {
    if (rule.model_type == row->model_type) return rule;
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

// What a model type that we do not know says of layers that keep no keys and
// values of their own.
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

std::vector<int64_t> layer_windows(const Node& config, const HfModelType* row,
                                   int64_t layers) {
  const WindowRule rule = rule_of(row);
  if (row != nullptr && rule.layers == Sliding::None) return {};
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
  if (row == nullptr) mark_unknown(config, windows);
  const bool all_see_all = std::all_of(windows.begin(), windows.end(),
                                       [](int64_t w) { return w == 0; });
  return all_see_all ? std::vector<int64_t>() : windows;
}

}  // namespace shardplan
