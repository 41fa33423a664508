// SPDX-License-Identifier: Apache-2.0
// flax's with_logical_constraint, built on the mapping of logical axes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/rules.h"
#include "core/spec.h"
#include "resolve/name_resolution.h"

namespace shardplan {

// The effect of with_logical_constraint on an array.
enum class ConstraintOutcome : uint8_t {
  Unconstrained,  // unchanged
  Constrained,    // to `spec`
  RepeatedLabel,  // refused
  Unplaced,       // refused, by RulesFallback::RaiseError
};
struct LogicalConstraint {
  ConstraintOutcome outcome = ConstraintOutcome::Unconstrained;
  PartitionSpec spec;
};
// Applies the rules to the labels. Without labels or without rules, nothing is
// constrained or checked.
LogicalConstraint logical_constraint(const std::optional<AxisLabels>& labels,
                                     std::span<const LogicalRule> rules,
                                     RulesFallback fallback,
                                     FlaxVersion version);

}  // namespace shardplan
