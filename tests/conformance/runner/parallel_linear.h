// SPDX-License-Identifier: Apache-2.0
// The dtype and spec computations of EasyDeL's ParallelLinear: the dtype that
// it computes in, like flax's promote_dtype, and the output spec of its
// collective products.
//
// Without a requested dtype, the dtype is the result type of JAX's lattice
// (docs.jax.dev, "Type promotion semantics"): floats take precedence over
// integers of any width, bf16 with f16 is f32, and integers alone become f32.
// The result is 64-bit if an operand is, as with jax_enable_x64.
#pragma once

#include <optional>
#include <span>

#include "base/diagnostic.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// Returns the dtype. Reports SP015 if `wish` is neither a float nor complex, or
// if JAX does not promote the operands (two different 8-bit floats) or lacks
// their dtype.
std::optional<DType> promoted_dtype(std::span<const DType> operands,
                                    std::optional<DType> wish,
                                    Diagnostics& diags);

// Returns EasyDeL's get_output_partition_spec for collective products: for two
// dimensions the reversed spec of the weight, whatever the left operand is;
// otherwise the last dimension is sharded over `axes`. Returns empty if a spec
// is absent, or if the weight's spec has fewer than two entries where they are
// needed.
std::optional<PartitionSpec> original_collective_output(
    int left_rank, const std::optional<PartitionSpec>& left,
    const std::optional<PartitionSpec>& right, const AxisNames& axes);

}  // namespace shardplan
