// SPDX-License-Identifier: Apache-2.0
#include "advise/groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/checked.h"

namespace shardplan {

Grouping grouped(const Planned& planned) {
  Grouping result;
  const Manifest& manifest = planned.manifest;
  Diagnostics ignored;
  const auto matcher =
      Matcher::compile(planned.rules, manifest.names_are_plain(), ignored);
  SHARDPLAN_CHECK(matcher);  // the plan was made with it
  auto found = matcher->find_sets(manifest, planned.resolving.jobs);
  SHARDPLAN_CHECK(found);
  result.found = std::move(found->sets);
  std::map<AxisLabels, uint32_t> labels;  // 0 stands for none
  // Parameters of a class are mostly of one group.
  struct Latest {
    uint32_t set = 0;
    uint32_t label = 0;
    uint32_t group = UINT32_MAX;
  };
  std::vector<Latest> latest(planned.folding.classes.size());
  result.group_of.reserve(manifest.size());
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> known;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const uint32_t set = found->of[i];
    uint32_t label = 0;
    if (const AxisLabels* axes = manifest.axes(i)) {
      label =
          labels.try_emplace(*axes, static_cast<uint32_t>(labels.size() + 1))
              .first->second;
    }
    const uint32_t number = planned.folding.class_of[i];
    Latest& last = latest[number];
    if (last.group == UINT32_MAX || last.set != set || last.label != label) {
      const auto [entry, is_new] = known.try_emplace(
          {set, number, label}, static_cast<uint32_t>(result.groups.size()));
      if (is_new) {
        const bool scalar = manifest.type(i).shape.empty();
        result.groups.push_back({set, number, static_cast<uint32_t>(i), 0,
                                 !planned.resolving.strict || !scalar});
      }
      last = {set, label, entry->second};
    }
    ++result.groups[last.group].count;
    result.group_of.push_back(last.group);
  }
  return result;
}

Manifest firsts_of(const Manifest& manifest, const Grouping& grouping) {
  Manifest result;
  result.facts = manifest.facts;
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    const size_t first = grouping.groups[g].first;
    SHARDPLAN_CHECK(result.add(manifest.name(first), manifest.type(first), {}));
    if (const AxisLabels* axes = manifest.axes(first)) {
      result.set_axes(g, *axes);
    }
  }
  return result;
}

Folding refold(const Folding& folding, const Grouping& grouping,
               const std::vector<uint32_t>& kinds) {
  Folding result;
  result.folded_names = folding.folded_names;
  result.class_of.reserve(kinds.size());
  std::unordered_map<uint64_t, uint32_t> known;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const ParameterGroup& members = grouping.groups[i];
    const uint32_t folded = folding.classes[members.parameter_class].folded;
    const auto [entry, is_new] =
        known.try_emplace((uint64_t{folded} << 32U) | kinds[i],
                          static_cast<uint32_t>(result.classes.size()));
    if (is_new) result.classes.push_back({folded, kinds[i], i, 0});
    result.classes[entry->second].count += members.count;
    result.class_of.push_back(entry->second);
  }
  return result;
}

namespace {

// The classes of the folding in which each new pattern is found, as the rules'
// new numbers; no entries where no pattern is new. Empty when a pattern cannot
// be compiled.
using FoundByClass = std::vector<std::vector<int>>;
std::optional<FoundByClass> find_new(const Planned& planned,
                                     const ChangedRules& change,
                                     int64_t& work) {
  FoundByClass result;
  RuleSet fresh;
  std::vector<int> numbers;
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] >= 0) continue;
    fresh.rules.push_back(change.rules.rules[i]);
    numbers.push_back(static_cast<int>(i));
  }
  if (fresh.rules.empty()) return result;
  result.resize(planned.folding.classes.size());
  work += static_cast<int64_t>(result.size());
  Diagnostics ignored;
  const auto matcher =
      Matcher::compile(fresh, planned.manifest.names_are_plain(), ignored);
  if (!matcher) return std::nullopt;
  std::vector<int> found;
  for (size_t i = 0; i < result.size(); ++i) {
    matcher->find(planned.manifest.name(planned.folding.classes[i].first),
                  found);
    for (const int rule : found) {
      result[i].push_back(numbers[static_cast<size_t>(rule)]);
    }
  }
  return result;
}

}  // namespace

std::optional<Matches> rematch(const Planned& planned, const Grouping& grouping,
                               const ChangedRules& change, int64_t& work) {
  const std::optional<FoundByClass> added = find_new(planned, change, work);
  if (!added) return std::nullopt;
  std::vector<int> now(planned.rules.rules.size(), -1);  // old to new numbers
  for (size_t i = 0; i < change.origin.size(); ++i) {
    if (change.origin[i] < 0) continue;
    now[static_cast<size_t>(change.origin[i])] = static_cast<int>(i);
  }
  Matches matches;
  matches.rules.resize(change.origin.size());
  matches.winner.reserve(grouping.groups.size());
  for (const ParameterGroup& members : grouping.groups) {
    std::vector<int> found;
    if (!added->empty()) found = (*added)[members.parameter_class];
    for (const int rule : grouping.found[members.found]) {
      if (now[static_cast<size_t>(rule)] >= 0) {
        found.push_back(now[static_cast<size_t>(rule)]);
      }
    }
    work += static_cast<int64_t>(found.size());
    for (const int rule : found) {
      matches.rules[static_cast<size_t>(rule)].found += members.count;
    }
    if (found.empty() || !members.may_decide) {
      matches.winner.push_back(-1);
      continue;
    }
    const int winner = *std::min_element(found.begin(), found.end());
    matches.winner.push_back(winner);
    matches.rules[static_cast<size_t>(winner)].won += members.count;
    for (const int rule : found) {
      std::vector<int>& winners =
          matches.rules[static_cast<size_t>(rule)].winners;
      if (rule != winner && (winners.empty() || winners.back() != winner)) {
        winners.push_back(winner);
      }
    }
  }
  for (RuleUse& use : matches.rules) {
    std::sort(use.winners.begin(), use.winners.end());
    use.winners.erase(std::unique(use.winners.begin(), use.winners.end()),
                      use.winners.end());
  }
  return matches;
}

std::optional<uint32_t> NumbersByName::find(std::string_view name) {
  if (behind_in_class_.empty()) order();
  for (const uint32_t number : expected_) {
    if (number < all_.size() && all_.name(number) == name) return go_to(number);
  }
  if (numbers_.empty()) {
    for (uint32_t i = 0; i < all_.size(); ++i)
      numbers_.emplace(all_.name(i), i);
  }
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return go_to(found->second);
}

uint32_t NumbersByName::go_to(uint32_t number) {
  // Or the first of the class behind.
  const size_t behind = folding_.class_of[number] + size_t{1};
  const size_t next = behind == folding_.classes.size() ? 0 : behind;
  expected_ = {behind_in_class_[number], behind_in_placement_[number],
               static_cast<uint32_t>(folding_.classes[next].first)};
  return number;
}

void NumbersByName::order() {
  const auto count = static_cast<uint32_t>(all_.size());
  std::vector<uint32_t> of_class(folding_.classes.size(), count);
  uint32_t placements = 0;
  for (const ParameterClass& c : folding_.classes) {
    placements = std::max(placements, c.kind + 1);
  }
  std::vector<uint32_t> of_placement(placements, count);
  behind_in_class_.assign(count, count);
  behind_in_placement_.assign(count, count);
  for (uint32_t i = count; i-- > 0;) {
    const uint32_t number = folding_.class_of[i];
    behind_in_class_[i] = std::exchange(of_class[number], i);
    behind_in_placement_[i] =
        std::exchange(of_placement[folding_.classes[number].kind], i);
  }
}

}  // namespace shardplan
