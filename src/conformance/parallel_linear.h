// SPDX-License-Identifier: Apache-2.0
// Which dtype a layer computes in, as flax's promote_dtype has it.
//
// Without a wish it is the result type of JAX's lattice (docs.jax.dev, "Type
// promotion semantics"): integers give way to floats whatever their width, bf16
// with f16 is f32, and what are integers only become f32. Numbers are 64-bit
// where an operand is, as with jax_enable_x64.
#pragma once

#include <optional>
#include <span>

#include "base/diagnostic.h"
#include "core/types.h"

namespace shardplan {

// SP015 for a wish that is neither a float nor complex, and for operands that
// JAX does not promote (two 8-bit floats of different kind) or does not have.
std::optional<DType> promoted_dtype(std::span<const DType> operands,
                                    std::optional<DType> wish,
                                    Diagnostics& diags);

}  // namespace shardplan
