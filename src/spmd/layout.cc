// SPDX-License-Identifier: Apache-2.0
#include "spmd/layout.h"

#include <algorithm>
#include <map>

#include "base/checked.h"

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

Layout replicated(size_t rank) {
  Layout layout;
  layout.spec.dims.resize(rank);
  return layout;
}

Layout layout_of(const Mesh& mesh, const PartitionSpec& spec, size_t rank) {
  Layout layout = replicated(rank);
  for (size_t dim = 0; dim < std::min(rank, spec.dims.size()); ++dim) {
    for (const AxisName& axis : spec.dims[dim]) {
      if (mesh.size_of(axis) > 1) layout.spec.dims[dim].push_back(axis);
    }
  }
  return layout;
}

Shape local_shape(const Mesh& mesh, const Layout& layout, const Shape& shape) {
  SHARDPLAN_CHECK(layout.spec.dims.size() == shape.size());
  Shape local = shape;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t shards = shard_count(mesh, layout.spec.dims[dim]);
    SHARDPLAN_CHECK(shape[dim] % shards == 0);
    local[dim] /= shards;
  }
  return local;
}

std::vector<AxisName> axes_in_use(const Layout& layout) {
  std::vector<AxisName> axes = layout.partial;
  for (const AxisNames& dim : layout.spec.dims) {
    axes.insert(axes.end(), dim.begin(), dim.end());
  }
  return axes;
}

bool covers(const Layout& from, const Layout& to) {
  return std::all_of(
      to.partial.begin(), to.partial.end(), [&](const AxisName& axis) {
        return std::find(from.partial.begin(), from.partial.end(), axis) !=
               from.partial.end();
      });
}

AxisNames in_mesh_order(const Mesh& mesh, const AxisNames& axes) {
  AxisNames ordered;
  for (const Axis& axis : mesh.axes()) {
    if (contains(axes, axis.name)) ordered.push_back(axis.name);
  }
  return ordered;
}

std::string layout_text(const Layout& layout) {
  std::string text = spec_text(layout.spec);
  for (const AxisName& axis : layout.partial) {
    text += text.ends_with(')') ? " partial over " : ", ";
    text += axis;
  }
  return text;
}

namespace {

// Gives the axes of one dimension to its factors.
void distribute(const Mesh& mesh, const ShardingRule& rule,
                const DimFactors& dim, const AxisNames& axes,
                FactorAxes& result) {
  if (dim.empty()) return;
  size_t at = 0;
  int64_t left = rule.factors[static_cast<size_t>(dim[0])].size;
  for (const AxisName& axis : axes) {
    const int64_t size = mesh.size_of(axis);
    while (left == 1 && at + 1 < dim.size()) {
      left = rule.factors[static_cast<size_t>(dim[++at])].size;
    }
    const auto factor = static_cast<size_t>(dim[at]);
    if (rule.factors[factor].kind == FactorKind::Whole || left % size != 0) {
      return;
    }
    left /= size;
    result[factor].push_back(axis);
  }
}

}  // namespace

FactorAxes factor_axes(const Mesh& mesh, const ShardingRule& rule,
                       const std::vector<DimFactors>& dims,
                       const PartitionSpec& spec) {
  FactorAxes result(rule.factors.size());
  for (size_t dim = 0; dim < dims.size() && dim < spec.dims.size(); ++dim) {
    distribute(mesh, rule, dims[dim], spec.dims[dim], result);
  }
  return result;
}

std::optional<PartitionSpec> spec_of(const Mesh& mesh, const ShardingRule& rule,
                                     const std::vector<DimFactors>& dims,
                                     const FactorAxes& axes) {
  PartitionSpec spec;
  for (const DimFactors& dim : dims) {
    AxisNames& entry = spec.dims.emplace_back();
    bool into_single_indices = true;
    for (const int number : dim) {
      const auto factor = static_cast<size_t>(number);
      const int64_t shards = shard_count(mesh, axes[factor]);
      if (shards > 1 && !into_single_indices) return std::nullopt;
      entry.insert(entry.end(), axes[factor].begin(), axes[factor].end());
      into_single_indices =
          into_single_indices && shards == rule.factors[factor].size;
    }
  }
  return spec;
}

}  // namespace shardplan
