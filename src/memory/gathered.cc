// SPDX-License-Identifier: Apache-2.0
#include "memory/gathered.h"

#include <algorithm>

#include "memory/zero.h"
#include "resolve/gathered_axes.h"

namespace shardplan {

int64_t gathered_bytes(const Placement& placement, const StateLeaf& leaf,
                       const Mesh& mesh, OnIndivisible policy,
                       const StateOptions& options, int stacked_dim) {
  const bool zero3 = is_sharded_by_zero(StateKind::Parameter, options);
  const auto& zero_axes = options.zero_axes;
  const auto goes = [&](const AxisName& axis) {
    return is_gathered_axis(axis) ||
           (zero3 && std::find(zero_axes.begin(), zero_axes.end(), axis) !=
                         zero_axes.end());
  };
  bool is_cut = leaf.zero_ranks > 1 || leaf.spec != placement.spec;
  for (const AxisNames& axes : placement.spec.dims) {
    for (const AxisName& axis : axes) {
      is_cut = is_cut || (goes(axis) && mesh.size_of(axis) > 1);
    }
  }
  if (!is_cut) return 0;

  TensorType type = leaf.type;
  if (options.compute_dtype && is_trainable(type.dtype)) {
    type.dtype = *options.compute_dtype;
  }
  PartitionSpec spec = placement.spec;
  for (AxisNames& axes : spec.dims) std::erase_if(axes, goes);
  if (stacked_dim >= 0) {
    type.shape.erase(type.shape.begin() + stacked_dim);
    if (stacked_dim < static_cast<int>(spec.dims.size())) {
      spec.dims.erase(spec.dims.begin() + stacked_dim);
    }
  }
  type.shape = local_shape({&mesh, spec, cut_of(policy)}, type.shape);
  return type.bytes();
}

Int128 largest_gathered(std::vector<GatheredUnit> units, int64_t live) {
  std::sort(units.begin(), units.end(),
            [](const GatheredUnit& a, const GatheredUnit& b) {
              return a.bytes > b.bytes;
            });
  Int128 sum = 0;
  for (const GatheredUnit& unit : units) {
    const int64_t taken = std::min(live, unit.units);
    sum += static_cast<Int128>(unit.bytes) * taken;
    live -= taken;
  }
  return sum;
}

}  // namespace shardplan
