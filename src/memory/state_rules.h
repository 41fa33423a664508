// SPDX-License-Identifier: Apache-2.0
// State rules: specs of optimizer leaves from rules of their own, as EasyDeL
// shards its optimizer's tree.
//
// A leaf is named by its role and parameter, `mu/model/norm/kernel`.
// Placeholders of one element and counters are replicated, and no rule is asked
// about them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "core/rules.h"
#include "memory/state.h"
#include "resolve/resolve.h"

namespace shardplan {

// Kinds of parameters: equal placement, and equal specs of their leaves.
struct StateSpecs {
  struct Kind {
    uint32_t placement = 0;
    RoleSpecs specs;
  };
  std::vector<Kind> kinds;
  std::vector<uint32_t> kind_of;  // per parameter

  // The leaves as tensors, and where the rules place them: for the findings.
  Manifest leaves;
  Plan plan;
};

// Empty, with the reason reported, when a pattern cannot be compiled or the
// leaves exceed 63 bits.
std::optional<StateSpecs> resolve_state_rules(
    const Manifest& manifest, const Plan& plan, const StateOptions& options,
    const RuleSet& rules, const ResolveOptions& how, Diagnostics& diags);

}  // namespace shardplan
