// SPDX-License-Identifier: Apache-2.0
// What became of rules over names: their specs, and who decides which names.
#pragma once

#include <vector>

#include "core/manifest.h"
#include "gate/rule_changes.h"
#include "gate/spec_changes.h"

namespace shardplan {

// The rules of one kind on both sides.
struct RuleLists {
  const std::vector<Rule>& before;
  const std::vector<Rule>& after;
  const SpecMeaning& means_before;
  const SpecMeaning& means_after;
  bool of_values = false;
};

// Names to ask, in the order in which witnesses are taken.
struct KnownNames {
  std::span<const Manifest* const> models = {};
  std::span<const Manifest> families = {};
  int jobs = 1;
};

// Adds, in the order of the rules after, what each rule became, then takeovers
// and moves. False where a pattern cannot be compiled (SP105).
bool add_rule_changes(const RuleLists& lists, const KnownNames& names,
                      RuleSetChanges& found, Diagnostics& diags);

}  // namespace shardplan
