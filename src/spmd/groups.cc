// SPDX-License-Identifier: Apache-2.0
#include "spmd/groups.h"

#include <map>

#include "base/check.h"

namespace shardplan {
namespace {

// What tells the data of two devices apart: the shard of every dimension, and
// which part of a sum.
std::vector<int64_t> data_key(const Mesh& mesh, const Layout& layout,
                              int64_t device) {
  std::vector<int64_t> key = shard_indices(mesh, layout, device);
  key.push_back(shard_index(mesh, layout.partial, mesh.coordinates(device)));
  return key;
}

}  // namespace

std::vector<int64_t> shard_indices(const Mesh& mesh, const Layout& layout,
                                   int64_t device) {
  const std::vector<int64_t> coordinates = mesh.coordinates(device);
  std::vector<int64_t> indices;
  for (const AxisNames& axes : layout.spec.dims) {
    indices.push_back(shard_index(mesh, axes, coordinates));
  }
  return indices;
}

std::vector<std::vector<int>> device_groups(const Mesh& mesh,
                                            const AxisNames& axes) {
  AxisNames others;
  for (const Axis& axis : mesh.axes()) {
    bool taken = false;
    for (const AxisName& name : axes) taken = taken || name == axis.name;
    if (!taken) others.push_back(axis.name);
  }
  const auto ranks = static_cast<size_t>(shard_count(mesh, axes));
  std::vector<std::vector<int>> groups(
      static_cast<size_t>(mesh.devices()) / ranks, std::vector<int>(ranks));
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const std::vector<int64_t> at = mesh.coordinates(device);
    const auto group = static_cast<size_t>(shard_index(mesh, others, at));
    const auto rank = static_cast<size_t>(shard_index(mesh, axes, at));
    groups[group][rank] = static_cast<int>(device);
  }
  return groups;
}

Ranks ranks_along(const Mesh& mesh, const AxisNames& axes) {
  const int64_t inner = axes.size() > 1 ? mesh.size_of(axes.back()) : 1;
  return {static_cast<int>(shard_count(mesh, axes)), static_cast<int>(inner)};
}

std::vector<int> permute_sources(const Mesh& mesh, const Layout& from,
                                 const Layout& to) {
  const auto devices = static_cast<size_t>(mesh.devices());
  std::vector<int> sources(devices, -1);
  std::map<std::vector<int64_t>, std::vector<int>> spare;
  for (size_t device = 0; device < devices; ++device) {
    const auto id = static_cast<int64_t>(device);
    const auto held = data_key(mesh, from, id);
    if (held == data_key(mesh, to, id)) {
      sources[device] = static_cast<int>(device);
    } else {
      spare[held].push_back(static_cast<int>(device));
    }
  }
  std::map<std::vector<int64_t>, size_t> used;
  for (size_t device = 0; device < devices; ++device) {
    if (sources[device] >= 0) continue;
    const auto needed = data_key(mesh, to, static_cast<int64_t>(device));
    const std::vector<int>& holders = spare[needed];
    size_t& next = used[needed];
    SHARDPLAN_CHECK(next < holders.size());
    sources[device] = holders[next++];
  }
  return sources;
}

}  // namespace shardplan
