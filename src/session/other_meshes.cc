// SPDX-License-Identifier: Apache-2.0
#include "session/other_meshes.h"

#include <algorithm>
#include <utility>

namespace shardplan {
namespace {

constexpr int64_t kMostFactor = 8;

Mesh with_sizes(const Mesh& mesh, const AxisName& more, const AxisName& fewer,
                int64_t factor) {
  std::vector<Axis> axes = mesh.axes();
  for (Axis& axis : axes) {
    if (axis.name == more) axis.size *= factor;
    if (axis.name == fewer) axis.size /= factor;
  }
  if (!mesh.find(more)) axes.push_back({more, factor});
  return Mesh(std::move(axes));
}

// Whether a spec of the rules names it, or a dimension's name stands for it.
bool is_in_specs(const RuleSet& rules, const AxisName& axis) {
  if (rules.partition_axis) return true;  // semantic names stand for any
  const auto names_it = [&](const PartitionSpec& spec) {
    return std::any_of(spec.dims.begin(), spec.dims.end(),
                       [&](const auto& dim) { return contains(dim, axis); });
  };
  return std::any_of(rules.rules.begin(), rules.rules.end(),
                     [&](const Rule& rule) { return names_it(rule.spec); }) ||
         std::any_of(rules.logical_rules.begin(), rules.logical_rules.end(),
                     [&](const LogicalRule& rule) {
                       return contains(rule.axes, axis);
                     });
}

}  // namespace

std::vector<OtherMesh> other_meshes(const PlanRequest& planning,
                                    const MemoryRequest& memory,
                                    const Session& session, int64_t most) {
  const Mesh& mesh = session.plan.mesh;
  AxisNames names;
  for (const Axis& axis : mesh.axes()) {
    const bool is_stage = memory.stages && memory.stages->axis == axis.name;
    if (!is_stage) names.push_back(axis.name);
  }
  AxisNames targets = names;
  if (session.rules) {
    for (const AxisName& axis : session.rules->declared_axes) {
      // Along which nothing is cut, nothing is saved.
      const bool is_for_experts = axis == "ep" || axis == "expert";
      const bool has_experts =
          session.model.manifest.facts.experts.value_or(0) > 0;
      if (!mesh.find(axis) && is_in_specs(*session.rules, axis) &&
          (has_experts || !is_for_experts)) {
        targets.push_back(axis);
      }
    }
  }
  std::vector<OtherMesh> meshes;
  const auto add = [&](bool more_devices, int64_t factor, Mesh other) {
    const auto of_kind =
        std::count_if(meshes.begin(), meshes.end(), [&](const OtherMesh& each) {
          return each.more_devices == more_devices;
        });
    const bool adds = other.axes().size() > mesh.axes().size();
    if (of_kind < most)
      meshes.push_back({more_devices, factor, std::move(other), adds});
  };
  for (int64_t factor = 2; factor <= kMostFactor; factor *= 2) {
    for (const AxisName& to : targets) {
      for (const AxisName& from : names) {
        if (from == to || mesh.size_of(from) % factor != 0) continue;
        add(false, factor, with_sizes(mesh, to, from, factor));
      }
    }
  }
  // A topology has so many devices.
  if (planning.topology) return meshes;
  for (int64_t factor = 2; factor <= kMostFactor; factor *= 2) {
    for (const AxisName& to : targets) {
      if (mesh.devices() <= kMaxDevices / factor) {
        add(true, factor, with_sizes(mesh, to, "", factor));
      }
    }
  }
  return meshes;
}

}  // namespace shardplan
