// SPDX-License-Identifier: Apache-2.0
// add_rule_changes(): how rules over names changed: their specs, and which rule
// decides which names.
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

// Names to search, in the order of preference for witnesses.
struct KnownNames {
  std::span<const Manifest* const> models = {};
  std::span<const Manifest> families = {};
  int jobs = 1;
};

// Adds each rule's change, in the order of the rules after the change, then
// takeovers. Returns false if a pattern does not compile (SP105).
bool add_rule_changes(const RuleLists& lists, const KnownNames& names,
                      RuleSetChanges& found, Diagnostics& diags);

}  // namespace shardplan
