// SPDX-License-Identifier: Apache-2.0
// flax's with_logical_constraint.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/rules.h"
#include "core/spec.h"
#include "resolve/name_resolution.h"

namespace shardplan {

// What with_logical_constraint does to an array.
enum class ConstraintOutcome : uint8_t {
  Unconstrained,  // left as it is
  Constrained,    // to `spec`
  RepeatedLabel,  // refused
  Unplaced,       // refused, by RulesFallback::RaiseError
};
struct LogicalConstraint {
  ConstraintOutcome outcome = ConstraintOutcome::Unconstrained;
  PartitionSpec spec;
};
// Without labels or without rules, nothing is constrained, nor checked.
LogicalConstraint logical_constraint(const std::optional<AxisLabels>& labels,
                                     std::span<const LogicalRule> rules,
                                     RulesFallback fallback,
                                     FlaxVersion version);

}  // namespace shardplan
