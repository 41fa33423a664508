// SPDX-License-Identifier: Apache-2.0
// Turns the rules that match each name into winners: the end of
// resolve/match.h.
#include <algorithm>

#include "base/checked.h"
#include "resolve/match.h"

namespace shardplan {

std::optional<Matcher> compile_activations(const RuleSet& rules,
                                           Diagnostics& diags) {
  RuleSet patterns;
  patterns.rules = rules.activations;
  return Matcher::compile(patterns, true, diags);
}

Matches matches_of(const FoundSets& found, size_t rules,
                   const MayDecide& may_decide,
                   std::span<const int64_t> counts) {
  struct Size {
    int64_t names = 0;
    int64_t decided = 0;
  };
  Matches matches;
  matches.winner.reserve(found.of.size());
  matches.rules.resize(rules);
  std::vector<Size> sizes(found.sets.size());
  for (size_t i = 0; i < found.of.size(); ++i) {
    Size& size = sizes[found.of[i]];
    const std::vector<int>& set = found.sets[found.of[i]];
    const bool decides = may_decide(i);
    const int64_t count = counts.empty() ? 1 : counts[i];
    size.names += count;
    size.decided += decides ? count : 0;
    matches.winner.push_back(decides && !set.empty() ? set.front() : -1);
  }
  for (size_t number = 0; number < sizes.size(); ++number) {
    const std::vector<int>& set = found.sets[number];
    for (const int rule : set) {
      RuleUse& use = matches.rules[static_cast<size_t>(rule)];
      use.matched += sizes[number].names;
      if (sizes[number].decided == 0) continue;
      if (rule == set.front()) {
        use.decided += sizes[number].decided;
      } else if (use.winners.empty() || use.winners.back() != set.front()) {
        use.winners.push_back(set.front());
      }
    }
  }
  for (RuleUse& use : matches.rules) {
    std::ranges::sort(use.winners);
    use.winners.erase(std::unique(use.winners.begin(), use.winners.end()),
                      use.winners.end());
  }
  return matches;
}

Matches match(const Matcher& matcher, const Manifest& manifest,
              const MayDecide& may_decide, int jobs) {
  const auto found = matcher.find_sets(manifest, jobs);
  SHARDPLAN_CHECK(found.has_value());
  return matches_of(*found, matcher.rules(), may_decide);
}

}  // namespace shardplan
