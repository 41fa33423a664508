// SPDX-License-Identifier: Apache-2.0
#include "core/fold.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "core/manifest.h"
#include "core/name_classes.h"
#include "core/rules.h"

namespace shardplan {
namespace {

bool separates(char c) { return c == '/' || c == '.'; }
// Calls number(digits) for each whole component of digits and text(part) for
// everything between them, in order.
template <typename OnText, typename OnNumber>
void split(std::string_view name, OnText text, OnNumber number) {
  size_t pending = 0;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = begin;
    while (end < name.size() && is_digit(name[end])) ++end;
    const bool digits =
        end > begin && (end == name.size() || separates(name[end]));
    while (end < name.size() && !separates(name[end])) ++end;
    if (digits) {
      text(name.substr(pending, begin - pending));
      number(name.substr(begin, end - begin));
      pending = end;
    }
    begin = end + 1;
  }
  text(name.substr(pending));
}

// Compares numbers by value: 2 before 10.
bool is_less(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

// The distinct numbers at one position of many names. The same number often
// occurs in several successive names.
struct NumberSet {
  std::unordered_set<std::string_view> all;
  std::string_view last;

  void insert(std::string_view number) {
    if (number == last) return;
    last = number;
    all.insert(number);
  }
  std::vector<std::string_view> sorted() const {
    std::vector<std::string_view> numbers(all.begin(), all.end());
    std::ranges::sort(numbers, is_less);
    return numbers;
  }
};

bool follows(std::string_view a, std::string_view b) {
  std::string next(a);
  size_t i = next.size();
  while (i > 0 && next[i - 1] == '9') next[--i] = '0';
  if (i == 0) {
    next.insert(0, 1, '1');
  } else {
    ++next[i - 1];
  }
  return next == b;
}

// Returns "{0-2,5}", or a single number without braces.
std::string set_text(const std::vector<std::string_view>& numbers) {
  if (numbers.size() == 1) return std::string(numbers.front());
  std::string text = "{";
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() &&
           follows(numbers[last], numbers[last + 1])) {
      ++last;
    }
    if (text.size() > 1) text += ',';
    text += numbers[i];
    if (last != i) text.append("-").append(numbers[last]);
    i = last + 1;
  }
  return text + "}";
}

// Folds parameters one after the other, given the class of each name.
class Folder {
 public:
  explicit Folder(size_t parameters) { folding_.class_of.reserve(parameters); }

  void add(uint32_t name_class, uint32_t kind) {
    if (name_class >= latest_.size()) latest_.resize(name_class + size_t{1});
    Latest& latest = latest_[name_class];
    // Most names of a class have the same kind.
    if (!latest.known || latest.kind != kind) {
      latest = {true, kind, number_of(name_class, kind)};
    }
    ++folding_.classes[latest.number].count;
    folding_.class_of.push_back(latest.number);
  }

  Folding take(const NameClasses& names) {
    folding_.folded_names.reserve(names.size());
    for (uint32_t i = 0; i < names.size(); ++i) {
      folding_.folded_names.push_back(names.folded_name(i));
    }
    return std::move(folding_);
  }

 private:
  struct Latest {
    bool known = false;
    uint32_t kind = 0;
    uint32_t number = 0;
  };

  uint32_t number_of(uint32_t name_class, uint32_t kind) {
    const uint64_t key = (uint64_t{name_class} << 32U) | kind;
    const auto [found, is_new] = numbers_.try_emplace(
        key, static_cast<uint32_t>(folding_.classes.size()));
    if (is_new) {
      folding_.classes.push_back(
          {name_class, kind, folding_.class_of.size(), 0});
    }
    return found->second;
  }

  Folding folding_;
  std::vector<Latest> latest_;
  std::unordered_map<uint64_t, uint32_t> numbers_;
};

constexpr std::string_view kOuterBegin = "(?:(?:";
constexpr std::string_view kOuterEnd = ")\\.)*";
constexpr std::string_view kModuleEnd = "(?:\\.[^.]+)?$";
constexpr std::string_view kBiasEnd = "(?:\\.bias)$";
constexpr std::string_view kDigits = "\\d+";

// A key of fused experts, and the pattern that also matches their unfused names
// in a checkpoint.
struct FusedExperts {
  std::string_view key_end;
  std::string_view pattern_end;
};
constexpr std::array<FusedExperts, 4> kFusedExperts = {{
    {"experts.gate_up_proj",
     "experts\\.(?:gate_up_proj|\\d+\\.(?:gate_proj|up_proj|w1|w3))"},
    {"experts.down_proj", "experts\\.(?:down_proj|\\d+\\.(?:down_proj|w2))"},
    {"experts", "experts"},  // the module of the experts
    {"gate", "gate"},        // the router of the experts
}};
// Some checkpoints name the module of experts differently.
constexpr std::string_view kMlpKey = "mlp.";
constexpr std::string_view kMlpPattern = "(?:mlp|block_sparse_moe)\\.";

std::string escaped_key(std::string_view key) {
  std::string pattern;
  for (size_t i = 0; i < key.size();) {
    const size_t star = std::min(key.find('*', i), key.size());
    const std::string exact = exact_pattern(key.substr(i, star - i));
    pattern += exact.substr(1, exact.size() - 2);
    if (star < key.size()) pattern += kDigits;
    i = star + 1;
  }
  return pattern;
}

bool ends_in_parts(std::string_view key, std::string_view end) {
  return key.ends_with(end) &&
         (key.size() == end.size() || key[key.size() - end.size() - 1] == '.');
}

}  // namespace

std::string marked_name(std::string_view name, char mark) {
  std::string result;
  split(
      name, [&](std::string_view part) { result += part; },
      [&](std::string_view) { result += mark; });
  return result;
}

std::string folded_name(std::string_view name) {
  return marked_name(name, '*');
}

bool has_number(std::string_view name) {
  bool found = false;
  split(
      name, [](std::string_view) {}, [&](std::string_view) { found = true; });
  return found;
}

NumberIn first_number(std::string_view name) {
  constexpr size_t kMostDigits = 9;
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin;
    int64_t number = 0;
    for (; end < name.size() && is_digit(name[end]); ++end) {
      if (end - begin < kMostDigits) number = number * 10 + (name[end] - '0');
    }
    const bool whole = end == name.size() || separates(name[end]);
    if (whole && end > begin && end - begin <= kMostDigits) {
      return {begin, end, number};
    }
    while (end < name.size() && !separates(name[end])) ++end;
    begin = end + 1;
  }
  return {};
}

Folding fold(const std::vector<uint32_t>& kinds, const NameOf& name_of) {
  NameClasses names;
  Folder folder(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    folder.add(names.add(name_of(i)), kinds[i]);
  }
  return folder.take(names);
}

Folding fold(const std::vector<uint32_t>& kinds, const Manifest& manifest) {
  Folder folder(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    folder.add(manifest.name_class(i), kinds[i]);
  }
  return folder.take(manifest.name_classes());
}

Folding fold_by_type(const Manifest& manifest) {
  std::vector<uint32_t> kinds(manifest.size());
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = manifest.type_number(i);
  return fold(kinds, manifest);
}

Members::Members(const std::vector<uint32_t>& group_of, size_t groups)
    : begin_(groups + 1), members_(group_of.size()) {
  for (const uint32_t group : group_of) ++begin_[group + 1];
  for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  std::vector<uint64_t> next(begin_.begin(), begin_.end() - 1);
  for (size_t i = 0; i < group_of.size(); ++i) {
    members_[next[group_of[i]]++] = static_cast<uint32_t>(i);
  }
}

std::span<const uint32_t> Members::of(size_t group) const {
  return std::span(members_).subspan(begin_[group],
                                     begin_[group + 1] - begin_[group]);
}

std::vector<std::string> class_labels(const Folding& folding,
                                      const NameOf& name_of) {
  std::vector<int> sharing(folding.folded_names.size());
  for (const ParameterClass& c : folding.classes) ++sharing[c.folded];
  const auto is_ambiguous = [&](const ParameterClass& c) {
    return c.count > 1 && sharing[c.folded] > 1;
  };

  // The numbers at each position, for the classes whose labels must list them.
  std::vector<std::vector<NumberSet>> numbers(folding.classes.size());
  for (size_t i = 0; i < folding.class_of.size(); ++i) {
    const uint32_t number = folding.class_of[i];
    if (!is_ambiguous(folding.classes[number])) continue;
    size_t place = 0;
    split(
        name_of(i), [](std::string_view) {},
        [&](std::string_view digits) {
          if (numbers[number].size() <= place) numbers[number].emplace_back();
          numbers[number][place++].insert(digits);
        });
  }

  std::vector<std::string> labels;
  labels.reserve(folding.classes.size());
  for (size_t i = 0; i < folding.classes.size(); ++i) {
    const ParameterClass& c = folding.classes[i];
    if (c.count == 1) {
      labels.emplace_back(name_of(c.first));
    } else if (!is_ambiguous(c)) {
      labels.push_back(folding.folded_names[c.folded]);
    } else {
      std::string label;
      size_t place = 0;
      split(
          name_of(c.first), [&](std::string_view part) { label += part; },
          [&](std::string_view) {
            label += set_text(numbers[i][place++].sorted());
          });
      labels.push_back(std::move(label));
    }
  }
  // Two classes may have equal sets at each position but different
  // combinations: {0/1, 1/0} and {0/0, 1/1}. Their first names always differ.
  std::unordered_map<std::string, int> uses;
  for (const std::string& label : labels) ++uses[label];
  for (size_t i = 0; i < labels.size(); ++i) {
    if (uses[labels[i]] == 1) continue;
    labels[i] += " (from ";
    labels[i] += name_of(folding.classes[i].first);
    labels[i] += ')';
  }
  return labels;
}

std::string fold_digits(std::string_view name, DigitFolding folding) {
  std::string result;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (folding == DigitFolding::EveryRun && end > i) {
      result += '*';
      i = end;
      continue;
    }
    const bool after_dot = end > i && i > 0 && name[i - 1] == '.';
    const bool before_dot = end == name.size() || name[end] == '.';
    if (folding == DigitFolding::WholeParts && after_dot && before_dot) {
      result += '*';
      // The regex of transformers consumes this dot, so the next component is
      // not considered a number.
      if (end < name.size()) result += name[end++];
      while (end < name.size() && is_digit(name[end])) result += name[end++];
      i = end;
      continue;
    }
    end = std::max(end, i + 1);
    result += name.substr(i, end - i);
    i = end;
  }
  return result;
}

bool can_be_folded_name(std::string_view key, DigitFolding folding) {
  std::string sample(key);
  std::ranges::replace(sample, '*', '7');
  return fold_digits(sample, folding) == key;
}

std::string key_pattern(std::string_view key, KeyPart part,
                        std::string_view outer, FusedKeys fused_keys) {
  std::string pattern = "^";
  if (!outer.empty()) {
    pattern.append(kOuterBegin).append(outer).append(kOuterEnd);
  }
  const std::string_view end = part == KeyPart::Bias ? kBiasEnd : kModuleEnd;
  for (const FusedExperts& fused : kFusedExperts) {
    if (fused_keys == FusedKeys::AsWritten ||
        !ends_in_parts(key, fused.key_end)) {
      continue;
    }
    std::string_view before = key;
    before.remove_suffix(fused.key_end.size());
    const bool in_mlp = ends_in_parts(before, kMlpKey);
    if (in_mlp) before.remove_suffix(kMlpKey.size());
    pattern += escaped_key(before);
    if (in_mlp) pattern += kMlpPattern;
    return pattern.append(fused.pattern_end).append(end);
  }
  return pattern.append(escaped_key(key)).append(end);
}

std::optional<std::string> key_of_pattern(std::string_view pattern) {
  const bool bias = pattern.ends_with(kBiasEnd);
  if (!pattern.starts_with('^') || (!bias && !pattern.ends_with(kModuleEnd))) {
    return std::nullopt;
  }
  const KeyPart part = bias ? KeyPart::Bias : KeyPart::Module;
  std::string_view inside = pattern.substr(1);
  inside.remove_suffix((bias ? kBiasEnd : kModuleEnd).size());
  std::string_view outer;
  if (inside.starts_with(kOuterBegin)) {
    const size_t end = inside.find(kOuterEnd);
    if (end == std::string_view::npos) return std::nullopt;
    outer = inside.substr(kOuterBegin.size(), end - kOuterBegin.size());
    inside.remove_prefix(end + kOuterEnd.size());
  }
  std::string key;
  std::string_view fused_end;
  for (const FusedExperts& fused : kFusedExperts) {
    if (!inside.ends_with(fused.pattern_end)) continue;
    inside.remove_suffix(fused.pattern_end.size());
    fused_end = fused.key_end;
    break;
  }
  const bool in_mlp = !fused_end.empty() && inside.ends_with(kMlpPattern);
  if (in_mlp) inside.remove_suffix(kMlpPattern.size());
  for (size_t i = 0; i < inside.size(); ++i) {
    if (inside.substr(i).starts_with(kDigits)) {
      key += '*';
      i += kDigits.size() - 1;
    } else {
      if (inside[i] == '\\') ++i;
      if (i < inside.size()) key += inside[i];
    }
  }
  if (in_mlp) key += kMlpKey;
  key += fused_end;
  const FusedKeys fused_keys =
      fused_end.empty() ? FusedKeys::AsWritten : FusedKeys::AlsoEachExpert;
  if (key_pattern(key, part, outer, fused_keys) != pattern) return std::nullopt;
  return key;
}

NumberedLayers numbered_layers(const Manifest& manifest) {
  NumberedLayers layers;
  layers.of.reserve(manifest.size());
  std::unordered_map<std::string_view, size_t> stacks;
  std::vector<std::set<int64_t>> numbers;  // per stack
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string_view name = manifest.name(i);
    const NumberIn at = first_number(name);
    NumberedLayers::Place& place = layers.of.emplace_back();
    if (at.number < 0) continue;
    const std::string_view prefix = name.substr(0, at.begin);
    // Most names belong to the same layer as the previous one.
    if (i > 0 && layers.of[i - 1].number == at.number &&
        nth(layers.stacks, layers.of[i - 1].stack).prefix == prefix) {
      place = {layers.of[i - 1].stack, at.number, at.end};
      continue;
    }
    const auto [entry, is_new] = stacks.try_emplace(prefix, stacks.size());
    if (is_new) {
      layers.stacks.push_back({std::string(prefix), 0, -1});
      numbers.emplace_back();
    }
    place = {static_cast<int64_t>(entry->second), at.number, at.end};
    numbers[entry->second].insert(at.number);
  }
  for (size_t s = 0; s < numbers.size(); ++s) {
    layers.stacks[s].layers = static_cast<int64_t>(numbers[s].size());
    layers.stacks[s].last = *numbers[s].rbegin();
  }
  return layers;
}

}  // namespace shardplan
