// SPDX-License-Identifier: Apache-2.0
// Matching: which rules match which names; the first matching rule wins.
//
// All rules that match a name are recorded, not only the winner, so that unused
// and shadowed rules are known exactly. The result equals that of a loop over
// all rules; RE2::Set computes it in one pass over the name. If the combined
// automaton would be too large, or would grow with every name, the patterns are
// searched in parts, and in the last resort one by one. Names that no rule can
// tell apart, because they differ only in numbers for which every rule accepts
// any number, are searched once (distinguished_numbers.h); so are equal
// patterns.
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

// The rules that match each parameter, as numbers of sets. Sets are listed in
// the order of their first parameters.
struct FoundSets {
  std::vector<std::vector<int>> sets;  // 0-based rules, ascending
  std::vector<uint32_t> of;            // per parameter
};

class Matcher {
 public:
  // Compiles every rule. Reports each pattern that cannot be compiled (SP105),
  // and then returns no value. `plain_names` is that of translate_pattern
  // (python_regex.h).
  static std::optional<Matcher> compile(const RuleSet& rules, bool plain_names,
                                        Diagnostics& diags);

  // Finds the 0-based numbers of all rules that match the name, ascending. Safe
  // to call from several threads.
  void find(std::string_view name, std::vector<int>& found) const;
  // Finds the same by a plain loop over the rules.
  void find_one_by_one(std::string_view name, std::vector<int>& found) const;

  // Finds the same for all names of a model, on `jobs` threads (at least 1).
  // Returns no value if that would take too long, judged by how much the
  // automata grow for samples of the names; the answer depends on the input
  // only, not on a clock or the number of threads. Searches one name of each
  // group, unless `every_name`.
  std::optional<FoundSets> find_sets(const Manifest& manifest, int jobs,
                                     bool every_name = false) const;

  // Returns groups of names that the rules cannot tell apart; no value if this
  // is not proved or not worth the proof. Safe to call from several threads.
  std::optional<NameGroups> groups_of(const Manifest& manifest) const;

  size_t rules() const;

  Matcher(Matcher&&) noexcept;
  Matcher& operator=(Matcher&&) noexcept;
  ~Matcher();

 private:
  friend struct SearchInParts;
  struct Impl;
  explicit Matcher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Compiles the patterns of `activations`, which are searched in the names of
// graph values: printable ASCII, whatever the names of the model are. Both the
// check and the use of these patterns compile them here, so that a pattern that
// passed the check is never refused later.
std::optional<Matcher> compile_activations(const RuleSet& rules,
                                           Diagnostics& diags);

struct RuleUse {
  int64_t matched = 0;       // names that the pattern matches
  int64_t decided = 0;       // names that the rule decided
  std::vector<int> winners;  // 0-based, ascending: rules that decided the
                             // others
};

struct Matches {
  std::vector<int32_t> winner;  // per parameter, 0-based; -1: no rule matches
  std::vector<RuleUse> rules;
  // Per parameter; empty if no rule places whole experts.
  std::vector<ExpertTensor> experts = {};
};

// Returns whether rules may decide a parameter; in strict mode they do not
// decide a scalar. Counts in `matched` are over all names regardless.
using MayDecide = std::function<bool(size_t)>;

// Picks the winner of each entry and counts the uses of the rules. `rules` is
// their number. An entry is one parameter or, with `counts`, a group of
// counts[i] parameters.
Matches matches_of(const FoundSets& found, size_t rules,
                   const MayDecide& may_decide,
                   std::span<const int64_t> counts = {});

// Searches all names on `jobs` threads and picks the winners. REQUIRES:
// find_sets() returns a value.
Matches match(const Matcher& matcher, const Manifest& manifest,
              const MayDecide& may_decide, int jobs);

// Returns whether a pattern matches every name: `.*`, `.`, ``, `^.+$`. Names
// are printable ASCII without blanks. The answer is exact for patterns that do
// not test both ends of a name; others are tried on names of many lengths.
bool is_catch_all(std::string_view pattern);

}  // namespace shardplan
