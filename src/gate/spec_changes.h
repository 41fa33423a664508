// SPDX-License-Identifier: Apache-2.0
// What a rule's spec means in mesh axes, and how two such meanings differ.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"
#include "gate/rule_changes.h"
#include "resolve/name_resolution.h"

namespace shardplan {

// Names of `a` that are not in `b`, in order.
AxisNames without(const AxisNames& a, const AxisNames& b);
void add_names(AxisNames& names, const AxisNames& more);
// All axes of a spec, each once.
AxisNames axes_of_spec(const PartitionSpec& spec);

// The words of one side.
class SpecMeaning {
 public:
  // REQUIRES: the rules outlive it.
  explicit SpecMeaning(const RuleSet& rules);
  SpecMeaning(const SpecMeaning&) = delete;
  SpecMeaning& operator=(const SpecMeaning&) = delete;

  // Logical and semantic names as mesh axes, in training.
  PartitionSpec of(const Rule& rule) const;
  // The logical names of a spec, where there are several.
  AxisLabels labels_of(const Rule& rule) const;

 private:
  Mesh mesh_;
  Vocabulary names_;
};

// Fills what was lost and gained, and where it matters.
void describe_difference(const std::optional<PartitionSpec>& before,
                         const std::optional<PartitionSpec>& after,
                         RuleSetChange& change);

// Equal numbers for rules, of either side, that do the same to whatever they
// decide: trailing dimensions that a spec leaves out are whole.
class AlikeRules {
 public:
  int number_of(const Rule& rule, const SpecMeaning& meaning);

 private:
  using Key = std::tuple<bool, std::optional<int>, std::string, AxisName,
                         PartitionSpec>;
  std::map<Key, int> numbers_;
};

}  // namespace shardplan
