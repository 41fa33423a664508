// SPDX-License-Identifier: Apache-2.0
// Matmul specs: the spec of a matrix product's result, computed from the specs
// of its operands.
//
// matmul_output is given the ranks, so that it can interpret a short spec, and
// reports what the product needs: contracting axes that differ, and partial
// sums over sharded ones. original_matmul_output is EasyDeL's
// get_matmul_output_sharding, which infers ranks from the lengths of the specs
// and considers neither.
#pragma once

#include <optional>

#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

struct MatmulOutput {
  PartitionSpec spec;
  // Axes over which each device holds a partial sum, so that an all-reduce or a
  // reduce-scatter is needed.
  AxisNames partial;
  // Axes that shard the contracting dimension of one operand only, so that this
  // operand must be gathered or the other one sliced.
  AxisNames mismatched;
  // Axes left out of the spec because an earlier dimension uses them.
  AxisNames repeated;
};

// Returns the spec of [.., M, K] x [.., K, N] -> [.., M, N]; the right operand
// may be [K, N] with a left operand of any rank. REQUIRES: ranks of at least 1;
// specs no longer than their ranks.
MatmulOutput matmul_output(const PartitionSpec& left, int left_rank,
                           const PartitionSpec& right, int right_rank);

// Returns EasyDeL's answer; P() if a spec is absent. The name "" stands for
// None within a tuple.
PartitionSpec original_matmul_output(const std::optional<PartitionSpec>& left,
                                     const std::optional<PartitionSpec>& right);

}  // namespace shardplan
