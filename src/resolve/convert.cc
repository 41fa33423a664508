// SPDX-License-Identifier: Apache-2.0
#include "resolve/convert.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/rules.h"
#include "resolve/match.h"
#include "resolve/resolve.h"

namespace shardplan {
namespace {

bool is_small(const Placement& placement) {
  return std::any_of(
      placement.corrections.begin(), placement.corrections.end(),
      [](const Correction& c) { return c.code == Code::SmallParameter; });
}

// One rule per placement of the plan, which asks for what that one asked for.
RuleSet rules_of(const Plan& saved, const AxisNames& declared) {
  RuleSet rules;
  rules.declared_axes = saved.declared_axes;
  for (const AxisName& axis : declared) {
    AxisNames& known = rules.declared_axes;
    if (std::find(known.begin(), known.end(), axis) == known.end()) {
      known.push_back(axis);
    }
  }
  for (const Placement& placement : saved.placements) {
    Rule& rule = rules.rules.emplace_back();
    if (placement.requested && !is_small(placement)) {
      rule.spec = placement.asked();
    }
  }
  return rules;
}

// Each parameter is decided by the rule of its placement; what asked for
// nothing is unmatched, or a scalar, again.
Matches matches_of(const Plan& saved) {
  Matches matches;
  matches.rules.resize(saved.placements.size());
  matches.winner.reserve(saved.placement_of.size());
  for (const uint32_t number : saved.placement_of) {
    const bool asked = saved.placements[number].requested.has_value();
    matches.winner.push_back(asked ? static_cast<int32_t>(number) : -1);
  }
  return matches;
}

// Logical axes that no rule placed are lost on any mesh.
void keep_lost_names(const Placement& before, Placement& placement) {
  std::vector<Correction> lost;
  for (const Correction& correction : before.corrections) {
    if (correction.code == Code::UnplacedLogicalAxis ||
        correction.code == Code::RepeatedLogicalAxis) {
      lost.push_back(correction);
    }
  }
  placement.corrections.insert(placement.corrections.begin(), lost.begin(),
                               lost.end());
}

}  // namespace

std::optional<Plan> convert_plan(const Manifest& manifest, const Plan& saved,
                                 const Mesh& mesh,
                                 const ConvertOptions& options,
                                 Diagnostics& diags) {
  ResolveOptions how;
  how.on_indivisible = saved.on_indivisible;
  how.strict = saved.strict;
  how.declarations = saved.declarations;
  how.auto_unmatched = options.auto_unmatched;
  how.parity = options.parity;
  auto plan = resolve(manifest, rules_of(saved, options.declared_axes),
                      matches_of(saved), mesh, how, diags);
  if (!plan) return std::nullopt;
  for (Placement& placement : plan->placements) {
    if (placement.rule == 0) continue;
    const Placement& before =
        saved.placements[static_cast<size_t>(placement.rule) - 1];
    placement.rule = before.rule;
    placement.requested = before.requested;
    placement.meant = before.meant;
    placement.logical_rules = before.logical_rules;
    if (is_small(before)) {
      placement.corrections = before.corrections;
    } else {
      keep_lost_names(before, placement);
    }
  }
  plan->rules = saved.rules;
  plan->other_names = saved.other_names;
  return plan;
}

}  // namespace shardplan
