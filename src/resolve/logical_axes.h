// SPDX-License-Identifier: Apache-2.0
// Logical axes: dimensions labelled `embed` or `mlp`, and rules that map labels
// to mesh axes.
//
// Rules are taken in order, and the order is their priority: a rule gives its
// mesh axes to the first dimension of its name, unless that dimension has been
// given some already or one of the axes is in use. So a later rule of the same
// name is a fallback for where an earlier one was blocked, and a rule to None
// ends the search for its name. Source: flax.linen.spmd, whose behaviour of
// March 2024 differs in corners and is kept apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"

namespace shardplan {

// What flax does with dimensions that no rule places.
enum class RulesFallback : uint8_t {
  AxisIsUnsharded,  // they are unsharded
  RaiseError,
  NoConstraint,  // the whole array stays as it is
};
std::string_view fallback_name(RulesFallback fallback);
std::optional<RulesFallback> find_fallback(std::string_view name);

// Where flax of March 2024 differs from today's: a rule for None takes the
// first unlabelled dimension, unlabelled dimensions count as not placed, and
// UNCONSTRAINED is a name and an axis like any other.
enum class FlaxVersion : uint8_t { Current, March2024 };

struct LogicalDim {
  // Placed, by a rule or by having no label; else no rule could.
  bool placed = false;
  AxisNames axes;  // empty: None
  int rule = 0;    // 1-based; 0 when no rule decided
  // Rules of its name that were found blocked, because an axis of theirs was in
  // use by then. Ascending.
  std::vector<int> blocked;
};

struct LogicalMapping {
  std::vector<LogicalDim> dims;  // one per label
  // Labels given to several dimensions, in order of first occurrence: flax
  // refuses these, and `dims` is empty then.
  std::vector<std::string> repeated;
};

// Which rules name a label: there may be as many rules as arrays.
class LogicalIndex {
 public:
  // The rules must outlive it.
  explicit LogicalIndex(std::span<const LogicalRule> rules);

  // 1-based, ascending.
  std::span<const int> of(std::string_view name) const;
  // Those of all labels, and those for None.
  std::set<int> of_any(const AxisLabels& labels) const;

 private:
  std::map<std::string_view, std::vector<int>> numbers_;
  std::vector<int> nameless_;
};

// `reserved` axes are in use from the start. LogicalReading::Mapping asks no
// axis to be free, and the last rule of a name counts. `index` is of the same
// rules; without it all of them are gone through.
LogicalMapping map_logical_axes(
    const AxisLabels& labels, std::span<const LogicalRule> rules,
    FlaxVersion version = FlaxVersion::Current,
    LogicalReading reading = LogicalReading::Priority,
    const AxisNames& reserved = {}, const LogicalIndex* index = nullptr);

// True when every dimension is placed.
bool is_placed(const LogicalMapping& mapping);
// One entry per dimension; those not placed are unsharded.
PartitionSpec spec_of(const LogicalMapping& mapping);

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
