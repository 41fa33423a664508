// SPDX-License-Identifier: Apache-2.0
// A spec for an array that no rule mentions: large dimensions get large axes.
//
// Source: eformer's auto_partition_spec. Dimensions are taken by size, largest
// first (or smallest first), and each gets the first axis left that divides it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

struct AutoSpecOptions {
  // What dimensions may get, in order of preference; several names are taken
  // together. Empty: the mesh's axes, largest first.
  std::span<const AxisNames> choices;
  // Arrays of fewer elements are replicated; 0: fewer than there are devices.
  int64_t min_size = 0;
  bool smallest_first = false;
};

// One entry per dimension; P() where the array is too small.
PartitionSpec auto_spec(const Shape& shape, const Mesh& mesh,
                        const AutoSpecOptions& options);

}  // namespace shardplan
