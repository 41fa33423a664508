// SPDX-License-Identifier: Apache-2.0
// How near the products of a sharded run come to what rounding allows.
#pragma once

#include <optional>

#include "graph/evaluate.h"
#include "sim/simulate.h"

namespace shardplan {

// bound_ratio (sim/verdict.h) of a product of the program by itself, on whole
// operands that `operand` gives in float32. Empty when the node is no product,
// or its contraction is too long for a bound.
std::optional<double> bound_ratio_of(const Program& program, int node,
                                     const ReadWhole& operand,
                                     const SimulateOptions& options);

bool is_product(const GraphNode& node);

}  // namespace shardplan
