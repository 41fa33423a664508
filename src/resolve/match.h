// SPDX-License-Identifier: Apache-2.0
// Matching: which rules are found in which names; the first found wins.
//
// All rules found in a name are recorded, not only the winner, so that unused
// and shadowed rules are known exactly. The answer is that of a loop over all
// rules; RE2::Set gives it in one pass over the name. Where the combined
// automaton would be too large, or grow with every name, a part of the patterns
// is searched after the other, and by a loop at last. Names that no rule can
// tell apart, since they differ in numbers that all rules take for any number,
// are searched once (told_numbers.h), and so are equal patterns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/rules.h"
#include "resolve/dealing.h"
#include "resolve/name_groups.h"

namespace shardplan {

// Which rules are found in each parameter, as numbers of sets that are listed
// in the order of their first parameters.
struct FoundSets {
  std::vector<std::vector<int>> sets;  // 0-based, ascending
  std::vector<uint32_t> of;            // per parameter
};

class Matcher {
 public:
  // Compiles every rule; reports each that cannot be (SP105) and returns empty
  // when there was one. `plain_names`: see python_regex.h.
  static std::optional<Matcher> compile(const RuleSet& rules, bool plain_names,
                                        Diagnostics& diags);

  // 0-based numbers of all rules found in the name, ascending. Safe to call
  // from several threads.
  void find(std::string_view name, std::vector<int>& found) const;
  // The same by a plain loop over the rules.
  void find_one_by_one(std::string_view name, std::vector<int>& found) const;

  // The same for all names of a model, and any number of threads (`jobs` >= 1).
  // Empty where that would take too long, by what samples of the names add to
  // the automata: a matter of the input, not of a clock or threads. Searches
  // one name of each group, unless `every_name`.
  std::optional<FoundSets> find_sets(const Manifest& manifest, int jobs,
                                     bool every_name = false) const;

  // Names that the rules cannot tell apart; empty where that is not proved, or
  // not worth the proof. Safe to call from several threads.
  std::optional<NameGroups> groups_of(const Manifest& manifest) const;

  size_t rules() const;

  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

 private:
  friend class SearchInParts;
  struct Impl;
  explicit Matcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The patterns of `activations`, which are searched in the names of graph
// values: printable ASCII, whatever the model's own names are. Whoever checks
// them and whoever uses them compiles them here, so that none is refused later.
std::optional<Matcher> compile_activations(const RuleSet& rules,
                                           Diagnostics& diags);

struct RuleUse {
  int64_t found = 0;         // names that the pattern is found in
  int64_t won = 0;           // names that it decided
  std::vector<int> winners;  // 0-based, ascending: who decided the others
};

struct Matches {
  std::vector<int32_t> winner;  // per parameter, 0-based; -1: no rule found
  std::vector<RuleUse> rules;
  // Per parameter; empty where no rule deals experts out.
  std::vector<ExpertTensor> experts = {};
};

// Which parameters may be decided: a scalar in strict mode is not. Counts in
// `found` are over all names all the same.
using MayDecide = std::function<bool(size_t)>;

// Picks the winner of each entry and counts the uses of `rules` rules. An entry
// is one parameter, or with `counts` a group of so many.
Matches matches_of(const FoundSets& found, size_t rules,
                   const MayDecide& may_decide,
                   std::span<const int64_t> counts = {});

// Searches and matches on `jobs` threads. REQUIRES: find_sets() has an answer.
Matches match(const Matcher& matcher, const Manifest& manifest,
              const MayDecide& may_decide, int jobs);

// Patterns that are found in any name whatever: `.*`, `.`, ``, `^.+$`. Names
// are printable ASCII without blanks. Exact for patterns that do not look at
// both ends of a name; others are tried on names of many lengths.
bool is_catch_all(std::string_view pattern);

}  // namespace shardplan
