// SPDX-License-Identifier: Apache-2.0
// What EasyDeL's ParallelLinear does beside a matrix product: the dtype that it
// computes in, as flax's promote_dtype has it, and the spec of what its
// collective products give.
//
// The dtype: without a wish it is the result type of JAX's lattice
// (docs.jax.dev, "Type promotion semantics"): integers give way to floats
// whatever their width, bf16 with f16 is f32, and what are integers only become
// f32. Numbers are 64-bit where an operand is, as with jax_enable_x64.
#pragma once

#include <optional>
#include <span>

#include "base/diagnostic.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// SP015 for a wish that is neither a float nor complex, and for operands that
// JAX does not promote (two 8-bit floats of different kind) or does not have.
std::optional<DType> promoted_dtype(std::span<const DType> operands,
                                    std::optional<DType> wish,
                                    Diagnostics& diags);

// EasyDeL's get_output_partition_spec, of its collective products: for two
// dimensions the weight's spec turned round, whatever the left side is; else
// the last dimension on `axes`. Empty when a spec is absent, or the weight's
// has fewer than two entries where these are needed.
std::optional<PartitionSpec> original_collective_output(
    int left_rank, const std::optional<PartitionSpec>& left,
    const std::optional<PartitionSpec>& right, const AxisNames& axes);

}  // namespace shardplan
