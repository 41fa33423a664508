// SPDX-License-Identifier: Apache-2.0
// Device slices: which slice of one tensor lies on which device.
//
// A device's slice follows from its coordinates (core/spec.h), its id is their
// row-major index. Slices are of the stored shape, and end where rows do: what
// a shard stores beyond is padding.
#pragma once

#include <cstdint>
#include <vector>

#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"

namespace shardplan {

// What one device holds.
struct HeldSlice {
  std::vector<int64_t> coordinates;  // per axis of the mesh
  std::vector<Slice> slices;         // per dimension
  std::vector<int64_t> padding;      // per dimension: rows without content

  bool operator==(const HeldSlice&) const = default;
};
// REQUIRES: 0 <= device < mesh.devices().
HeldSlice held_slice(const Placement& placement, const Mesh& mesh,
                     OnIndivisible policy, int64_t device);

// The shards of a tensor, as a grid with the tensor's rank.
struct DeviceSlices {
  // Per dimension, by the shard's index in it. All have at least one.
  std::vector<std::vector<Slice>> slices;
  std::vector<std::vector<int64_t>> padding;
  // Per shard, row-major by the indices: who holds it, ascending.
  std::vector<std::vector<int64_t>> devices;

  // The number of the shard with these indices, one per dimension.
  size_t number(const std::vector<size_t>& indices) const;
};

// More devices make no map that somebody could read.
inline constexpr int64_t kMaxMappedDevices = int64_t{1} << 17;
// REQUIRES: mesh.devices() <= kMaxMappedDevices.
DeviceSlices device_slices(const Placement& placement, const Mesh& mesh,
                           OnIndivisible policy);

}  // namespace shardplan
