// SPDX-License-Identifier: Apache-2.0
// How near the products of a sharded run come to what rounding allows.
#pragma once

#include <optional>
#include <span>

#include "sim/simulate.h"

namespace shardplan {

// The largest bound_ratio (sim/verdict.h) over all products of the program,
// each by itself on the operands that the unsharded float32 run has. Empty when
// there is no product, or a contraction is too long for a bound.
std::optional<double> largest_bound_ratio(const Program& program,
                                          std::span<const Tensor> unsharded,
                                          const SimulateOptions& options);

}  // namespace shardplan
