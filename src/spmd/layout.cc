// SPDX-License-Identifier: Apache-2.0
#include "spmd/layout.h"

#include <algorithm>

#include "base/check.h"

namespace shardplan {

bool contains(const AxisNames& axes, const AxisName& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
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

}  // namespace shardplan
