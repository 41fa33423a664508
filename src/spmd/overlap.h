// SPDX-License-Identifier: Apache-2.0
// Collective matmuls: products interleaved with the collective that feeds or
// drains them, a chunk at a time (Wang et al., "Overlap Communication with
// Dependent Computation via Decomposition", ASPLOS 2023; xlstm's TPAsyncDense).
#pragma once

#include "spmd/program.h"

namespace shardplan {

// Joins every all-gather that only one einsum reads, and every reduce-scatter
// of sums that only an einsum feeds, with that einsum; an einsum is joined with
// one of them at most, its all-gather first. Off: changes nothing.
void overlap_products(Program& program, Overlap overlap);

// The algorithm whose transfers a form makes: "ring", "bidirectional-ring",
// "split-ring". REQUIRES: not Off.
const Algorithm& overlap_algorithm(Overlap overlap);

}  // namespace shardplan
