// SPDX-License-Identifier: Apache-2.0
// Device classes: devices whose shards of every tensor are of equal size.
//
// Under torch.chunk shards differ, but along each axis only at a few
// coordinates; so 100,000 devices fall into a handful of classes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// Coordinates of an axis at which a shard's size changes.
using Breakpoints = std::map<AxisName, std::set<int64_t>>;

// Adds those of one tensor under Cut::Chunked; false when all its shards are
// equal.
bool add_breakpoints(const Mesh& mesh, const Shape& shape,
                     const PartitionSpec& spec, Breakpoints& breakpoints);

// Devices between the breakpoints of every axis.
struct CoordinateClass {
  std::vector<int64_t> coordinates;  // of the first of them
  int64_t devices = 1;
};

// The class of device 0 comes first. Empty when there are more than `most`.
std::optional<std::vector<CoordinateClass>> coordinate_classes(
    const Mesh& mesh, const Breakpoints& breakpoints, int64_t most);

// Bytes of a tensor's shard at the given coordinates, under Cut::Chunked.
int64_t chunk_bytes(const Mesh& mesh, const TensorType& type,
                    const PartitionSpec& spec,
                    const std::vector<int64_t>& coordinates);

}  // namespace shardplan
