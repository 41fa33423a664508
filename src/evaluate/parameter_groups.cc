// SPDX-License-Identifier: Apache-2.0
#include "evaluate/parameter_groups.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/checked.h"

namespace shardplan {

ParameterGroups parameter_groups(const Manifest& manifest,
                                 const Folding& folding, FoundSets found,
                                 std::span<const ExpertTensor> experts,
                                 bool strict, bool places) {
  ParameterGroups result;
  result.sets = std::move(found.sets);
  result.folded_names = folding.folded_names;
  result.firsts.facts = manifest.facts;
  result.plain_names = manifest.names_are_plain();
  // Experts of layers with equal expert counts are alike unless they differ
  // within their layer.
  std::map<std::pair<int64_t, int64_t>, uint32_t> dealt;  // 0: no expert
  std::map<AxisLabels, uint32_t> labels;                  // 0: no labels
  const auto number_from_1 = [](auto& numbers, const auto& key) {
    const auto next = static_cast<uint32_t>(numbers.size() + 1);
    return numbers.try_emplace(key, next).first->second;
  };
  // Most classes form a single group, so remember the latest one.
  struct Latest {
    uint32_t set = 0;
    uint32_t label = 0;
    uint32_t expert = 0;
    uint32_t group = UINT32_MAX;
  };
  std::vector<Latest> latest(folding.classes.size());
  result.group_of.reserve(manifest.size());
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, uint32_t> known;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const uint32_t set = found.of[i];
    const AxisLabels* const axes = manifest.axes(i);
    const uint32_t label = axes != nullptr ? number_from_1(labels, *axes) : 0;
    uint32_t expert = 0;
    if (!experts.empty() && experts[i].expert >= 0) {
      const ExpertTensor& of = experts[i];
      expert = number_from_1(
          dealt, std::pair(of.experts, of.alike ? int64_t{-1} : of.expert));
    }
    const uint32_t number = folding.class_of[i];
    Latest& last = latest[number];
    if (last.group == UINT32_MAX || last.set != set || last.label != label ||
        last.expert != expert) {
      const auto [entry, is_new] =
          known.try_emplace({set, number, label, expert},
                            static_cast<uint32_t>(result.groups.size()));
      if (is_new) {
        const TensorType& type = manifest.type(i);
        result.groups.push_back({set, folding.classes[number].folded,
                                 static_cast<uint32_t>(i), 0,
                                 !strict || !type.shape.empty()});
        SHARDPLAN_CHECK(result.firsts.add(manifest.name(i), type,
                                          places ? manifest.where(i) : Span()));
        if (!experts.empty()) result.experts.push_back(experts[i]);
        if (axes != nullptr) {
          result.firsts.set_axes(result.firsts.size() - 1, *axes);
        }
      }
      last = {set, label, expert, entry->second};
    }
    ++result.groups[last.group].count;
    result.group_of.push_back(last.group);
  }
  return result;
}

Folding fold_groups(const ParameterGroups& groups,
                    const std::vector<uint32_t>& kinds) {
  Folding result;
  result.folded_names = groups.folded_names;
  result.class_of.reserve(kinds.size());
  std::unordered_map<uint64_t, uint32_t> known;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const ParameterGroup& members = groups.groups[i];
    const auto [entry, is_new] =
        known.try_emplace((uint64_t{members.folded} << 32U) | kinds[i],
                          static_cast<uint32_t>(result.classes.size()));
    if (is_new) result.classes.push_back({members.folded, kinds[i], i, 0});
    result.classes[entry->second].count += members.count;
    result.class_of.push_back(entry->second);
  }
  return result;
}

namespace {

// Per folded name, the rules with new patterns that match it, by their new
// numbers; no entries if no pattern is new. Empty if a pattern does not
// compile.
using FoundByName = std::vector<std::vector<int>>;
std::optional<FoundByName> find_new(const ParameterGroups& groups,
                                    const ChangedRules& change, int64_t& work) {
  FoundByName result;
  RuleSet fresh;
  std::vector<int> numbers;
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] >= 0) continue;
    fresh.rules.push_back(change.rules.rules[i]);
    numbers.push_back(static_cast<int>(i));
  }
  if (fresh.rules.empty()) return result;
  result.resize(groups.folded_names.size());
  Diagnostics ignored;
  const auto matcher = Matcher::compile(fresh, groups.plain_names, ignored);
  if (!matcher) return std::nullopt;
  std::vector<bool> asked(result.size());
  std::vector<int> found;
  for (size_t g = 0; g < groups.groups.size(); ++g) {
    const size_t folded = groups.groups[g].folded;
    if (asked[folded]) continue;
    asked[folded] = true;
    ++work;
    matcher->find(groups.firsts.name(g), found);
    for (const int rule : found) result[folded].push_back(nth(numbers, rule));
  }
  return result;
}

}  // namespace

std::optional<Matches> match_groups(const ParameterGroups& groups,
                                    size_t rules_before,
                                    const ChangedRules& change, int64_t& work) {
  const std::optional<FoundByName> added = find_new(groups, change, work);
  if (!added) return std::nullopt;
  std::vector<int> now(rules_before, -1);  // old to new numbers
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] < 0) continue;
    nth(now, change.origin[i]) = static_cast<int>(i);
  }
  FoundSets found;
  std::vector<int64_t> counts;
  for (const ParameterGroup& members : groups.groups) {
    std::vector<int>& set = found.sets.emplace_back();
    if (!added->empty()) set = (*added)[members.folded];
    for (const int rule : groups.sets[members.set]) {
      if (nth(now, rule) >= 0) set.push_back(nth(now, rule));
    }
    std::ranges::sort(set);
    work += std::ssize(set);
    found.of.push_back(static_cast<uint32_t>(counts.size()));
    counts.push_back(members.count);
  }
  Matches matches = matches_of(
      found, change.origin.size(),
      [&](size_t i) { return groups.groups[i].may_decide; }, counts);
  matches.experts = groups.experts;
  return matches;
}

std::optional<Manifest> padded(const Manifest& manifest,
                               const Padding& padding) {
  Manifest result;
  result.facts = manifest.facts;
  size_t next = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    TensorType type = manifest.type(i);
    if (next < padding.parameters.size() && padding.parameters[next] == i) {
      nth(type.shape, padding.dim) = padding.size;
      ++next;
    }
    if (!result.add(manifest.name(i), type, manifest.where(i))) {
      return std::nullopt;
    }
    if (const AxisLabels* axes = manifest.axes(i)) result.set_axes(i, *axes);
  }
  return result;
}

std::optional<Manifest> padded_firsts(const ParameterGroups& groups,
                                      const Padding& padding) {
  std::vector<int64_t> some(groups.groups.size());
  for (const uint32_t i : padding.parameters) ++some[groups.group_of[i]];
  Padding of_firsts = {{}, padding.dim, padding.size};
  for (uint32_t g = 0; g < some.size(); ++g) {
    if (some[g] == 0) continue;
    if (some[g] != groups.groups[g].count) return std::nullopt;
    of_firsts.parameters.push_back(g);
  }
  auto result = padded(groups.firsts, of_firsts);
  if (!result) return std::nullopt;
  Int128 elements = 0;
  Int128 bytes = 0;
  for (size_t g = 0; g < some.size(); ++g) {
    const TensorType& type = result->type(g);
    elements += Int128{type.elements()} * groups.groups[g].count;
    bytes += Int128{type.bytes()} * groups.groups[g].count;
  }
  if (elements > INT64_MAX || bytes > INT64_MAX) return std::nullopt;
  return result;
}

}  // namespace shardplan
