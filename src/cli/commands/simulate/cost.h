// SPDX-License-Identifier: Apache-2.0
// Estimates the time and memory of a run before it starts.
#pragma once

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "spmd/program.h"

namespace shardplan::cli {

struct RunCost {
  double seconds = 0;  // on one processor of usual speed
  double bytes = 0;    // lower bound of the bytes held at once
};

// Estimates the cost from the multiplications of the unsharded and the sharded
// run in both precisions and of the rounding bounds, and from the random
// numbers drawn.
RunCost cost_of_run(const SimulateInput& input, const Program& program);

// Writes a line to stderr if the run takes more than a few seconds, as runs of
// real sizes or of large checkpoints do.
void announce_cost(const Context& context, const SimulateInput& input,
                   const Program& program);

}  // namespace shardplan::cli
