// SPDX-License-Identifier: Apache-2.0
// The spec of a matrix product's result, computed from the specs of its
// operands.
//
// matmul_output takes ranks, so that a short spec means what it says, and
// reports what the product needs: contracting axes that differ, and partial
// sums where they are sharded. original_matmul_output is EasyDeL's
// get_matmul_output_sharding, which infers ranks from the lengths of specs and
// looks at neither.
#pragma once

#include <optional>

#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

struct MatmulOutput {
  PartitionSpec spec;
  // Axes over which each device holds a part of the sum: an all-reduce is
  // needed, or a reduce-scatter.
  AxisNames partial;
  // Axes that shard the contracting dimension of one operand only: that operand
  // is gathered first, or the other one sliced.
  AxisNames mismatched;
  // Axes left out of the spec because an earlier dimension uses them.
  AxisNames repeated;
};

// [.., M, K] x [.., K, N] -> [.., M, N]; the right side may be [K, N] beside
// any left side. REQUIRES: ranks of at least 1; specs no longer than their
// ranks.
MatmulOutput matmul_output(const PartitionSpec& left, int left_rank,
                           const PartitionSpec& right, int right_rank);

// An absent spec gives P(). None within a tuple is the name "".
PartitionSpec original_matmul_output(const std::optional<PartitionSpec>& left,
                                     const std::optional<PartitionSpec>& right);

}  // namespace shardplan
