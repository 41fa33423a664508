// SPDX-License-Identifier: Apache-2.0
// What a run takes, said before it starts.
#pragma once

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "spmd/program.h"

namespace shardplan::cli {

struct RunCost {
  double seconds = 0;  // of one processor, at the speed of a usual one
  double bytes = 0;    // that must be held at once, at least
};

// Products are counted, of the unsharded and the sharded run in both
// precisions and of the bounds of rounding, and the numbers that are drawn.
RunCost cost_of_run(const SimulateInput& input, const Program& program);

// A line on stderr, where the run takes more than some seconds: real sizes were
// asked for, or a checkpoint is large.
void announce_cost(const Context& context, const SimulateInput& input,
                   const Program& program);

}  // namespace shardplan::cli
