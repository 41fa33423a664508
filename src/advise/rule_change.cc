// SPDX-License-Identifier: Apache-2.0
#include "advise/rule_change.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace shardplan {
namespace {

void insert(std::span<const NewRule> added, size_t at, ChangedRules& result) {
  std::vector<Rule> rules;
  for (const NewRule& rule : added) {
    rules.push_back({rule.pattern, rule.spec, {}, {}, {}, false});
  }
  const auto offset = static_cast<std::ptrdiff_t>(at);
  result.rules.rules.insert(result.rules.rules.begin() + offset, rules.begin(),
                            rules.end());
  result.origin.insert(result.origin.begin() + offset, rules.size(), -1);
}

void move(size_t from, size_t to, ChangedRules& result) {
  const auto shift = [&](auto& items) {
    const auto begin = items.begin();
    const auto a = static_cast<std::ptrdiff_t>(from);
    const auto b = static_cast<std::ptrdiff_t>(to);
    if (from >= to) {
      std::rotate(begin + b, begin + a, begin + a + 1);
    } else {
      std::rotate(begin + a, begin + a + 1, begin + b);
    }
  };
  shift(result.rules.rules);
  shift(result.origin);
}

}  // namespace

ChangedRules changed(const RuleSet& rules, const RuleChange& change) {
  ChangedRules result{rules, std::vector<int>(rules.rules.size())};
  std::iota(result.origin.begin(), result.origin.end(), 0);
  const size_t at = static_cast<size_t>(change.rule) - 1;
  switch (change.kind) {
    case RuleChange::Kind::SetSpec:
      result.rules.rules[at].spec = change.spec;
      break;
    case RuleChange::Kind::SetPattern:
      result.rules.rules[at].pattern = change.pattern;
      result.origin[at] = -1;
      break;
    case RuleChange::Kind::Insert:
      insert(change.added, at, result);
      break;
    case RuleChange::Kind::Remove:
      result.rules.rules.erase(result.rules.rules.begin() +
                               static_cast<std::ptrdiff_t>(at));
      result.origin.erase(result.origin.begin() +
                          static_cast<std::ptrdiff_t>(at));
      break;
    case RuleChange::Kind::Move:
      move(at, static_cast<size_t>(change.before) - 1, result);
      break;
  }
  return result;
}

bool is_editable(const Rule& rule) {
  return !rule.shipped && static_cast<bool>(rule.item_where);
}

int insertion_place(const RuleSet& rules, int rule) {
  const auto editable = [&](int number) {
    return number >= 1 && static_cast<size_t>(number) <= rules.rules.size() &&
           is_editable(rules.rules[static_cast<size_t>(number) - 1]);
  };
  for (int place = rule; place >= 1; --place) {
    if (editable(place) || editable(place - 1)) return place;
  }
  return rule;
}

}  // namespace shardplan
