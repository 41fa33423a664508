// SPDX-License-Identifier: Apache-2.0
// ParameterGroups: groups of parameters that no candidate can distinguish. They
// have equal types, labels and matching rules, and their names differ only in
// numbers. The first parameter represents its group, so the cost of a candidate
// does not grow with the number of layers.
//
// Patterns are searched once: reordering rules, or changing specs or the mesh,
// needs no new search. A new pattern is searched in one name per group, so it
// must treat all numbers alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "evaluate/candidate.h"
#include "resolve/match.h"

namespace shardplan {

struct ParameterGroup {
  uint32_t set = 0;     // index of its set of matching rules
  uint32_t folded = 0;  // index of its folded name
  uint32_t first = 0;   // index of its first parameter
  int64_t count = 0;
  bool may_decide = true;  // false: a scalar, which strict rules skip
};

struct ParameterGroups {
  std::vector<std::vector<int>> sets;  // 0-based rule numbers, ascending
  std::vector<std::string> folded_names;
  std::vector<ParameterGroup> groups;  // ordered by first parameter
  std::vector<uint32_t> group_of;      // per parameter
  Manifest firsts;                     // the first parameter of each group
  std::vector<ExpertTensor> experts;   // per group; see Matches::experts
  bool plain_names = true;             // all names are printable ASCII
};

// Groups the parameters. `folding` is by type, or by the placements of a plan
// made with these rules. Without `places`, `firsts` has no source locations,
// which saves line look-ups for findings that nobody sees. `experts` is empty
// if no rule places whole experts.
ParameterGroups parameter_groups(const Manifest& manifest,
                                 const Folding& folding, FoundSets found,
                                 std::span<const ExpertTensor> experts,
                                 bool strict, bool places);

// Folds the groups by `kinds`; each class counts parameters, not groups.
Folding fold_groups(const ParameterGroups& groups,
                    const std::vector<uint32_t>& kinds);

// Matches the groups against changed rules. Empty if a new pattern does not
// compile. Adds the entries it visits to `work`.
std::optional<Matches> match_groups(const ParameterGroups& groups,
                                    size_t rules_before,
                                    const ChangedRules& change, int64_t& work);

// Returns `firsts`, padded. Empty if a size or the model's total exceeds 63
// bits, or if the padding covers only part of a group.
std::optional<Manifest> padded_firsts(const ParameterGroups& groups,
                                      const Padding& padding);
// Returns the manifest, padded. Empty if a size exceeds 63 bits.
std::optional<Manifest> padded(const Manifest& manifest,
                               const Padding& padding);

}  // namespace shardplan
