// SPDX-License-Identifier: Apache-2.0
#include "model/forward/parameter_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

using Parts = std::vector<std::string_view>;

// Modules that contain the model itself. Those that a task adds (`lm_head`) are
// next to them.
constexpr std::array<std::string_view, 14> kWrappers = {
    "params",     "model",      "transformer",    "bert",         "module",
    "text_model", "base_model", "language_model", "distilbert",   "roberta",
    "vit",        "backbone",   "gpt_neox",       "data2vec_text"};

// Components before the index of a layer.
constexpr std::array<std::string_view, 3> kLayerLists = {"layers", "h",
                                                         "layer"};
// Components that Flax joins with an index: `layers_3`.
constexpr std::array<std::string_view, 4> kNumbered = {"layers", "h", "layer",
                                                       "experts"};

bool is_number(std::string_view part) {
  return !part.empty() && std::ranges::all_of(part, is_digit);
}

Parts split_name(std::string_view name) {
  const char separator = contains(name, '/') ? '/' : '.';
  Parts parts;
  while (true) {
    const size_t end = name.find(separator);
    const std::string_view part = name.substr(0, end);
    const size_t bar = part.rfind('_');
    if (bar != std::string_view::npos && is_number(part.substr(bar + 1)) &&
        contains(kNumbered, part.substr(0, bar))) {
      parts.push_back(part.substr(0, bar));
      parts.push_back(part.substr(bar + 1));
    } else {
      parts.push_back(part);
    }
    if (end == std::string_view::npos) return parts;
    name.remove_prefix(end + 1);
  }
}

std::string join(const Parts& parts) {
  return joined_of(parts, ".", std::identity());
}

// Removes the outer modules.
void drop_wrappers(Parts& parts) {
  const auto own = std::find_if(
      parts.begin(), parts.end() - 1,
      [](std::string_view part) { return !contains(kWrappers, part); });
  parts.erase(parts.begin(), own);
}

// Returns the position of the layer's index, or where a stacked parameter lacks
// it: after the first list of layers. Returns 0 if there is no such list.
size_t layer_place(const Parts& parts) {
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (contains(kLayerLists, parts[i])) return i + 1;
  }
  return 0;
}

// Returns whether PEFT adds this component to modules (0.21: peft/tuners). Most
// are followed by the name of an adapter, `default`, which saved adapters omit.
bool is_adapter(std::string_view part) {
  constexpr std::array<std::string_view, 12> kBegins = {
      "lora", "ia3",       "hada",     "lokr",   "oft",  "vera",
      "boft", "fourierft", "randlora", "vblora", "bone", "loha"};
  const size_t begin = part.find('_');
  if (begin == std::string_view::npos || begin + 1 == part.size()) return false;
  return contains(kBegins, part.substr(0, begin));
}

// Removes from a name the wrappers and adapter names that PEFT adds.
void unwrap(Parts& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto at = parts.begin() + static_cast<ptrdiff_t>(i);
    const size_t after = parts.size() - i - 1;
    // A `base_layer` before an adapter stays: it wraps one of two stacks of
    // experts.
    const bool is_adapted = after > 0 && is_adapter(parts[i + 1]);
    if (parts[i] == "base_layer" && after > 0 && !is_adapted) {
      parts.erase(at);
      return unwrap(parts);
    }
    if (parts[i] == "modules_to_save" && after > 1) {
      parts.erase(at, at + 2);
      return;
    }
    if (is_adapter(parts[i])) {
      const bool has_leaf = parts.back() == "weight" || parts.back() == "bias";
      if (after > (has_leaf ? 1U : 0U)) parts.erase(at + 1);
      return;
    }
  }
}

// Returns the name in the convention, and how the parameter is stored.
std::pair<std::string, NamedParameter> canonical_name(
    std::string_view name, std::span<const OtherName> others) {
  NamedParameter parameter;
  Parts parts = split_name(name);
  if (parts.size() > 1 && parts.back() == "value") parts.pop_back();
  drop_wrappers(parts);
  unwrap(parts);
  std::string_view& last = parts.back();
  if (parts.size() > 1) {
    parameter.inputs_first = last == "kernel";
    // The first checkpoints of BERT call the parameters of norms gamma and
    // beta.
    const std::string_view owner = parts[parts.size() - 2];
    const bool is_norm = contains(owner, "Norm") || contains(owner, "norm");
    if (last == "kernel" || last == "embedding" || last == "scale" ||
        (is_norm && last == "gamma")) {
      last = "weight";
    } else if (is_norm && last == "beta") {
      last = "bias";
    }
  }
  const size_t place = layer_place(parts);
  parameter.stacked = place > 0 && !is_number(parts[place]);
  for (std::string_view& part : parts) {
    const auto own = std::ranges::find(others, part, &OtherName::other);
    if (own != others.end()) part = own->part;
  }
  return {join(parts), parameter};
}

}  // namespace

ParameterNames::ParameterNames(const Manifest& manifest,
                               std::span<const OtherName> others)
    : manifest_(&manifest) {
  for (size_t i = 0; i < manifest.any_size(); ++i) {
    auto [name, parameter] = canonical_name(manifest.any_name(i), others);
    parameter.index = i;
    by_name_.emplace(std::move(name), parameter);
  }
  if (manifest.views != nullptr) add_views(*manifest.views, others);
}

void ParameterNames::add_views(const TensorViews& views,
                               std::span<const OtherName> others) {
  std::map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < manifest_->any_size(); ++i) {
    numbers.emplace(manifest_->any_name(i), i);
  }
  for (const auto& [tensor, view] : views) {
    const auto of = numbers.find(view.of);
    if (of == numbers.end()) continue;  // it was filtered out
    by_name_.emplace(canonical_name(tensor, others).first,
                     NamedParameter{of->second, false, false, &view});
  }
}

const NamedParameter* ParameterNames::find(std::string_view name,
                                           int64_t* layer) const {
  const auto exact = by_name_.find(name);
  if (exact != by_name_.end()) return &exact->second;
  Parts parts = split_name(name);
  const size_t place = layer_place(parts);
  if (place == 0 || !is_number(parts[place])) return nullptr;
  const std::string_view number = parts[place];
  parts.erase(parts.begin() + static_cast<ptrdiff_t>(place));
  const auto stacked = by_name_.find(join(parts));
  if (stacked == by_name_.end() || !stacked->second.stacked) return nullptr;
  if (layer != nullptr) *layer = parse_integer(number).value_or(*layer);
  return &stacked->second;
}

int64_t ParameterNames::layer_count(std::string_view prefix) const {
  const std::string start = std::string(prefix) + ".";
  int64_t count = 0;
  for (auto each = by_name_.lower_bound(start);
       each != by_name_.end() && each->first.starts_with(start); ++each) {
    if (each->second.stacked) {
      const Shape& shape = manifest_->any_type(each->second.index).shape;
      if (!shape.empty()) count = std::max(count, shape.front());
      continue;
    }
    int64_t layer = 0;
    const char* begin = each->first.data() + start.size();
    const char* end = each->first.data() + each->first.size();
    const auto [rest, problem] = std::from_chars(begin, end, layer);
    // A number near 2^63 is not a count of layers.
    if (problem == std::errc() && layer < INT64_MAX) {
      count = std::max(count, layer + 1);
    }
  }
  return count;
}

const NamedParameter* ParameterNames::find_first(std::string_view name) const {
  const Parts wanted = split_name(name);
  const std::string start(
      name.substr(0, std::min(name.find('*'), name.size())));
  for (auto each = by_name_.lower_bound(start);
       each != by_name_.end() && each->first.starts_with(start); ++each) {
    const auto is_same = [](std::string_view part, std::string_view other) {
      return part == other || (other == "*" && is_number(part));
    };
    if (std::ranges::equal(split_name(each->first), wanted, is_same)) {
      return &each->second;
    }
  }
  return nullptr;
}

std::map<std::string, NamedParameter> ParameterNames::folded_tensors() const {
  std::map<std::string, NamedParameter> names;
  for (const auto& [name, parameter] : by_name_) {
    Parts parts = split_name(name);
    if (parameter.stacked) {
      parts.insert(parts.begin() + static_cast<ptrdiff_t>(layer_place(parts)),
                   "*");
    }
    for (std::string_view& part : parts) {
      if (is_number(part)) part = "*";
    }
    const auto [entry, is_new] = names.emplace(join(parts), parameter);
    // Parameters come before buffers.
    if (!is_new && parameter.index < entry->second.index &&
        entry->second.index >= manifest_->size()) {
      entry->second = parameter;
    }
  }
  return names;
}

std::vector<std::string> ParameterNames::folded() const {
  std::vector<std::string> names;
  for (auto& [name, tensor] : folded_tensors()) {
    const bool is_own =
        adapter_part(name).empty() && !contains(name, ".original_module.");
    if (tensor.index < manifest_->size() && is_own) names.push_back(name);
  }
  return names;
}

std::string_view adapter_part(std::string_view name) {
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("./"), name.size());
    const std::string_view part = name.substr(0, end);
    if (is_adapter(part)) return part;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return {};
}

std::string_view adapted_module(std::string_view name) {
  return name.substr(0, to_size(adapter_part(name).data() - name.data()));
}

bool is_stack_adapter(std::string_view name) {
  if (adapter_part(name).empty()) return false;
  std::string_view module = adapted_module(name);
  constexpr std::string_view kOuter = "base_layer.";
  if (module.ends_with(kOuter)) module.remove_suffix(kOuter.size());
  return module == "experts." || module.ends_with(".experts.");
}

std::string without_outer_modules(std::string_view name) {
  Parts parts = split_name(name);
  drop_wrappers(parts);
  return join(parts);
}

}  // namespace shardplan
