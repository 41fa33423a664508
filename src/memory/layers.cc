// SPDX-License-Identifier: Apache-2.0
#include "memory/layers.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/fold.h"
#include "resolve/layout_hints.h"
#include "resolve/tensor_name.h"

namespace shardplan {
namespace {

bool separates(char c) { return c == '/' || c == '.'; }

std::vector<std::string_view> components_of(std::string_view name) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && !separates(name[i])) continue;
    parts.push_back(name.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

bool contains(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

template <size_t N>
bool any_is(const std::vector<std::string_view>& parts,
            const std::array<std::string_view, N>& words) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return std::find(words.begin(), words.end(), part) != words.end();
  });
}

// Output projections onto the vocabulary: Hugging Face, Flax, MaxText,
// torchtitan, GPT-NeoX, Megatron.
constexpr std::array<std::string_view, 7> kHeads = {
    "lm_head", "output",       "embed_out", "logits_dense",
    "head",    "output_layer", "unembed"};
// GPT-2 and GGUF spell "embed" nowhere.
constexpr std::array<std::string_view, 4> kTables = {"wte", "wpe", "token_embd",
                                                     "position_embd"};

// Words of embeddings that are not of tokens, and of what stands beside them.
constexpr std::array<std::string_view, 6> kOtherTables = {
    "wpe", "pos", "norm", "patch", "type", "rotary"};

// Whether a unit that is an embedding is that of tokens.
bool is_token_table(std::string_view name) {
  return std::none_of(
      kOtherTables.begin(), kOtherTables.end(),
      [&](std::string_view word) { return contains(name, word); });
}

UnitPlace place_of(const std::vector<std::string_view>& parts) {
  if (any_is(parts, kHeads)) return UnitPlace::Head;
  const auto any_contains = [&](std::string_view word) {
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
      return contains(part, word);
    });
  };
  if (any_contains("embed") || any_is(parts, kTables)) {
    return UnitPlace::Embedding;
  }
  if (any_contains("norm") || any_contains("ln_f")) return UnitPlace::Norm;
  return UnitPlace::Unknown;
}

struct Number {
  size_t begin = 0;  // of its digits
  size_t end = 0;    // 0: there is none
  int64_t value = 0;
};

// The first component of digits, of at most nine.
Number first_number(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin;
    int64_t value = 0;
    bool digits = true;
    for (; end < name.size() && !separates(name[end]); ++end) {
      digits = digits && name[end] >= '0' && name[end] <= '9';
      if (digits && end - begin < 9) value = value * 10 + (name[end] - '0');
    }
    if (digits && end > begin && end - begin <= 9) return {begin, end, value};
    begin = end + 1;
  }
  return {};
}

// The name up to the module that a parameter outside of layers belongs to.
std::string_view module_name(std::string_view name) {
  const std::string_view module = split_name(name).module;
  if (module.empty()) return name;
  return name.substr(
      0, static_cast<size_t>(module.data() - name.data()) + module.size());
}

class UnitCollector {
 public:
  UnitCollector(const Manifest& manifest, std::span<const uint32_t> kind_of)
      : manifest_(manifest), kind_of_(kind_of) {}

  LayerUnits collect() {
    count_layers();
    for (size_t i = 0; i < manifest_.size(); ++i) add(i);
    find_forms();
    return std::move(result_);
  }

 private:
  struct Members {
    std::map<uint32_t, int64_t> counts;
    std::string label;
    std::optional<StackedLayers> stacked;
  };

  void count_layers() {
    std::unordered_map<std::string_view, std::set<int64_t>> numbers;
    std::vector<std::string_view> order;
    for (size_t i = 0; i < manifest_.size(); ++i) {
      const std::string_view name = manifest_.name(i);
      const Number number = first_number(name);
      if (number.end == 0) continue;
      const std::string_view prefix = name.substr(0, number.begin);
      const auto [entry, is_new] = numbers.try_emplace(prefix);
      if (is_new) {
        stack_of_.emplace(prefix, static_cast<int64_t>(order.size()));
        order.push_back(prefix);
      }
      entry->second.insert(number.value);
    }
    for (const std::string_view prefix : order) {
      result_.stacks.push_back(
          {std::string(prefix), static_cast<int64_t>(numbers[prefix].size())});
    }
    const bool numbered =
        std::any_of(result_.stacks.begin(), result_.stacks.end(),
                    [](const LayerStack& stack) { return stack.layers > 1; });
    if (!numbered) hints_ = layout_hints(manifest_);
  }

  // How the layers of a tensor without a number are stacked, if they are.
  std::optional<StackedLayers> stacking_of(std::string_view stack) const {
    const auto evidence = hints_.stacks.find(stack);
    if (stack.empty() || evidence == hints_.stacks.end()) return std::nullopt;
    return stacked_layers(evidence->second, manifest_.facts.layers);
  }

  void add(size_t parameter) {
    const std::string_view name = manifest_.name(parameter);
    const Number number = first_number(name);
    // Most names are of the same layer as the one before.
    if (number.end > 0 && name.substr(0, number.end) == last_layer_) {
      ++members_[last_unit_].counts[kind_of_[parameter]];
      return;
    }
    LayerUnit unit;
    Members members;
    if (number.end > 0) {
      unit.name = name.substr(0, number.end);
      unit.stack = stack_of_.at(name.substr(0, number.begin));
      unit.number = number.value;
      members.label = std::string(name.substr(0, number.begin)) + "*";
    } else if (const auto stacked = stacking_of(stack_of(name))) {
      unit.name = stack_of(name);
      members.stacked = stacked;
      members.label = unit.name;
    } else {
      unit.name = module_name(name);
      members.label = unit.name;
      if (!in_other_tower(name)) {
        const auto parts = components_of(name);
        unit.place = place_of(parts);
        unit.is_token_embedding =
            unit.place == UnitPlace::Embedding && is_token_table(unit.name);
      }
    }
    const std::string key = (members.stacked ? "*" : "") + unit.name;
    const auto [entry, is_new] =
        unit_of_.try_emplace(key, result_.units.size());
    if (is_new) {
      unit.first = parameter;
      result_.units.push_back(std::move(unit));
      members_.push_back(std::move(members));
    }
    ++members_[entry->second].counts[kind_of_[parameter]];
    if (number.end > 0) {
      last_layer_ = name.substr(0, number.end);
      last_unit_ = entry->second;
    }
  }

  void find_forms() {
    std::map<std::pair<std::string, std::map<uint32_t, int64_t>>, uint32_t>
        known;
    for (size_t i = 0; i < members_.size(); ++i) {
      const Members& members = members_[i];
      const auto [entry, is_new] =
          known.try_emplace({members.label, members.counts},
                            static_cast<uint32_t>(result_.forms.size()));
      if (is_new) {
        UnitForm form;
        form.label = members.label;
        if (members.stacked) {
          form.stacked_dim = static_cast<int>(members.stacked->dim);
          form.layers = members.stacked->layers;
        }
        for (const auto& [kind, count] : members.counts) {
          form.members.push_back({kind, count});
        }
        result_.forms.push_back(std::move(form));
      }
      ++result_.forms[entry->second].units;
      result_.units[i].form = entry->second;
    }
  }

  const Manifest& manifest_;
  std::span<const uint32_t> kind_of_;
  LayerUnits result_;
  std::vector<Members> members_;  // per unit
  std::unordered_map<std::string_view, int64_t> stack_of_;
  std::unordered_map<std::string, size_t> unit_of_;
  std::string_view last_layer_;
  size_t last_unit_ = 0;
  LayoutHints hints_;  // only where layers may be stacked
};

}  // namespace

LayerUnits layer_units(const Manifest& manifest,
                       std::span<const uint32_t> kind_of) {
  return UnitCollector(manifest, kind_of).collect();
}

}  // namespace shardplan
