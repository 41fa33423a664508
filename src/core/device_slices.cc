// SPDX-License-Identifier: Apache-2.0
#include "core/device_slices.h"

#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

const AxisNames& axes_of(const Placement& placement, size_t dim) {
  static const AxisNames kNone;
  return dim < placement.spec.dims.size() ? placement.spec.dims[dim] : kNone;
}

}  // namespace

HeldSlice held_slice(const Placement& placement, const Mesh& mesh,
                     OnIndivisible policy, int64_t device) {
  const Shape shape = stored_shape(placement);
  HeldSlice held{mesh.coordinates(device), {}, {}};
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const AxisNames& axes = axes_of(placement, dim);
    const Cut cut = cut_of(policy);
    const Slice slice =
        dimension_slice(mesh, axes, cut, shape[dim], held.coordinates);
    // Chunks are stored as they are; even shards are all of one size.
    const int64_t stored = cut == Cut::Chunked ? slice.end - slice.begin
                                               : placement.local_shape[dim];
    held.slices.push_back(slice);
    held.padding.push_back(stored - (slice.end - slice.begin));
  }
  return held;
}

size_t DeviceSlices::number(const std::vector<size_t>& indices) const {
  SHARDPLAN_CHECK(indices.size() == slices.size());
  size_t number = 0;
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    number = number * slices[dim].size() + indices[dim];
  }
  return number;
}

DeviceSlices device_slices(const Placement& placement, const Mesh& mesh,
                           OnIndivisible policy) {
  SHARDPLAN_CHECK(mesh.devices() <= kMaxMappedDevices);
  const size_t rank = placement.type.shape.size();
  DeviceSlices map;
  for (size_t dim = 0; dim < rank; ++dim) {
    const auto shards =
        static_cast<size_t>(shard_count(mesh, axes_of(placement, dim)));
    map.slices.emplace_back(shards);
    map.padding.emplace_back(shards);
  }
  map.devices.resize(static_cast<size_t>(placement.shards));
  std::vector<size_t> indices(rank);
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const HeldSlice held = held_slice(placement, mesh, policy, device);
    for (size_t dim = 0; dim < rank; ++dim) {
      indices[dim] = static_cast<size_t>(
          shard_index(mesh, axes_of(placement, dim), held.coordinates));
      map.slices[dim][indices[dim]] = held.slices[dim];
      map.padding[dim][indices[dim]] = held.padding[dim];
    }
    map.devices[map.number(indices)].push_back(device);
  }
  return map;
}

}  // namespace shardplan
