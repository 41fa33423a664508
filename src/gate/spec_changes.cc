// SPDX-License-Identifier: Apache-2.0
#include "gate/spec_changes.h"

#include <algorithm>
#include <utility>

#include "base/words.h"

namespace shardplan {
namespace {

// Returns a mesh with the axes of the rules' own mesh; sizes do not matter
// here.
Mesh mesh_of(const RuleSet& rules) {
  std::vector<Axis> axes;
  if (rules.mesh) {
    for (const AxisRequest& axis : *rules.mesh) {
      if (!find_named(axes, axis.name)) axes.push_back({axis.name, 1});
    }
  }
  // A mesh needs an axis; users cannot write this name.
  if (axes.empty()) axes.push_back({std::string(kUnconstrained), 1});
  return Mesh(std::move(axes));
}

}  // namespace

AxisNames without(const AxisNames& a, const AxisNames& b) {
  AxisNames rest;
  for (const AxisName& name : a) {
    if (!contains(b, name) && !contains(rest, name)) rest.push_back(name);
  }
  return rest;
}

void add_names(AxisNames& names, const AxisNames& more) {
  for (const AxisName& name : more) {
    if (!contains(names, name)) names.push_back(name);
  }
}

AxisNames axes_at(const PartitionSpec& spec, size_t dim) {
  return dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
}

AxisNames axes_of_spec(const PartitionSpec& spec) {
  AxisNames axes;
  for (const AxisNames& dim : spec.dims) add_names(axes, dim);
  erase_if(axes, [](const AxisName& axis) { return axis.empty(); });
  return axes;
}

SpecMeaning::SpecMeaning(const RuleSet& rules)
    : mesh_(mesh_of(rules)), names_(rules, mesh_, {}) {}

PartitionSpec SpecMeaning::of(const Rule& rule) const {
  if (names_.is_literal(rule.spec)) return rule.spec;
  return names_.of(rule.spec, rule.spec.dims.size()).spec;
}

AxisLabels SpecMeaning::labels_of(const Rule& rule) const {
  AxisLabels labels;
  for (const AxisNames& dim : rule.spec.dims) {
    for (const AxisName& name : dim) {
      if (names_.kind_of(name) == NameKind::Logical) {
        labels.emplace_back(split_prefix(name).name);
      }
    }
  }
  return labels.size() < 2 ? AxisLabels() : labels;
}

void describe_difference(const std::optional<PartitionSpec>& before,
                         const std::optional<PartitionSpec>& after,
                         RuleSetChange& change) {
  const PartitionSpec old_spec = before.value_or(PartitionSpec());
  const PartitionSpec new_spec = after.value_or(PartitionSpec());
  const AxisNames old_axes = axes_of_spec(old_spec);
  const AxisNames new_axes = axes_of_spec(new_spec);
  change.lost = without(old_axes, new_axes);
  change.gained = without(new_axes, old_axes);
  const size_t rank = std::max(old_spec.dims.size(), new_spec.dims.size());
  AxisNames swapped;
  for (size_t i = 0; i < rank; ++i) {
    const AxisNames a = axes_at(old_spec, i);
    const AxisNames b = axes_at(new_spec, i);
    const DimensionChange dim = {static_cast<int>(i), without(a, b),
                                 without(b, a)};
    if (!dim.lost.empty() || !dim.gained.empty()) {
      add_names(change.matters, dim.lost);
      add_names(change.matters, dim.gained);
      change.dims.push_back(dim);
    } else if (a != b) {
      add_names(swapped, a);
    }
  }
  if (change.matters.empty() && !swapped.empty()) {
    change.matters = std::move(swapped);
    change.matters_together = true;
  }
  erase_if(change.matters, [](const AxisName& axis) { return axis.empty(); });
}

}  // namespace shardplan
