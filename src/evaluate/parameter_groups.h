// SPDX-License-Identifier: Apache-2.0
// Groups of parameters that no candidate tells apart: of one type, with the
// same labels, named alike but for numbers, and found by the same rules. Each
// is judged once, by its first parameter, so a candidate costs as much as there
// are groups, however many layers a model has.
//
// Names are searched once, too: a change of the order of rules, of their specs
// or of the mesh asks no pattern again, and a new pattern is asked for one name
// of those that differ in numbers only; such patterns must treat numbers alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/fold.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "evaluate/candidate.h"
#include "resolve/match.h"

namespace shardplan {

struct ParameterGroup {
  uint32_t set = 0;     // number of the set of rules found
  uint32_t folded = 0;  // number of its folded name
  uint32_t first = 0;   // its first parameter
  int64_t count = 0;
  bool may_decide = true;  // rules may: it is no scalar under strict rules
};

struct ParameterGroups {
  std::vector<std::vector<int>> sets;  // 0-based rules, ascending
  std::vector<std::string> folded_names;
  std::vector<ParameterGroup> groups;  // by first parameter
  std::vector<uint32_t> group_of;      // per parameter
  Manifest firsts;                     // the first parameter of every group
  bool plain_names = true;             // of all parameters
};

// `folding`: by type, or by the placements of a plan of these rules. Without
// `places` the firsts have none: nobody is shown what is found in them, and
// finding a line costs time.
ParameterGroups parameter_groups(const Manifest& manifest,
                                 const Folding& folding, FoundSets found,
                                 bool strict, bool places);

// fold() of the groups by these kinds of theirs; classes count parameters.
Folding fold_groups(const ParameterGroups& groups,
                    const std::vector<uint32_t>& kinds);

// What matching says of the groups under changed rules. Empty when a new
// pattern cannot be compiled. `work` grows by what is visited.
std::optional<Matches> match_groups(const ParameterGroups& groups,
                                    size_t rules_before,
                                    const ChangedRules& change, int64_t& work);

// The model of the groups' firsts with a dimension padded. Empty where that
// exceeds 63 bits, for one parameter or for all, or pads a part of a group.
std::optional<Manifest> padded_firsts(const ParameterGroups& groups,
                                      const Padding& padding);
// The same of all parameters, or of firsts: `parameters` of `manifest`.
std::optional<Manifest> padded(const Manifest& manifest,
                               const Padding& padding);

}  // namespace shardplan
