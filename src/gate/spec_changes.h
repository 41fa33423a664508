// SPDX-License-Identifier: Apache-2.0
// SpecMeaning: the mesh axes that a rule's spec means, and how two meanings
// differ.
#pragma once

#include <cstddef>
#include <optional>

#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"
#include "gate/rule_changes.h"
#include "resolve/name_resolution.h"

namespace shardplan {

// Returns the names of `a` that are not in `b`, in order.
AxisNames without(const AxisNames& a, const AxisNames& b);
void add_names(AxisNames& names, const AxisNames& more);
// Returns the axes of a dimension; none beyond the last.
AxisNames axes_at(const PartitionSpec& spec, size_t dim);
// Returns all axes of a spec, each once.
AxisNames axes_of_spec(const PartitionSpec& spec);

// The vocabulary of one side's rules.
class SpecMeaning {
 public:
  // The rules must outlive it.
  explicit SpecMeaning(const RuleSet& rules);
  SpecMeaning(const SpecMeaning&) = delete;
  SpecMeaning& operator=(const SpecMeaning&) = delete;

  // Returns the spec in mesh axes, with logical and semantic names resolved as
  // in training.
  PartitionSpec of(const Rule& rule) const;
  // Returns the logical names of a spec that has several of them.
  AxisLabels labels_of(const Rule& rule) const;

 private:
  Mesh mesh_;
  Vocabulary names_;
};

// Sets what was lost and gained, and the axes that matter.
void describe_difference(const std::optional<PartitionSpec>& before,
                         const std::optional<PartitionSpec>& after,
                         RuleSetChange& change);

}  // namespace shardplan
