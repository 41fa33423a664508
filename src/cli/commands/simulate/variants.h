// SPDX-License-Identifier: Apache-2.0
// `simulate --vary`: runs the same model on the same values with other sizes of
// a mesh axis or other algorithms.
#pragma once

#include <optional>
#include <vector>

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "cli/views/simulate_report.h"
#include "sim/simulate.h"

namespace shardplan::cli {

SimulateOptions simulate_options(Context& context, const SimulateInput& input);

// Returns the run already made, then every variant: the divisors of the axis's
// size, and every algorithm that supports all reductions of the program. A
// variant that computes a different result is SP504. Returns empty, with the
// reason reported, if --vary names neither an axis nor `algorithm` (SP010), or
// if a variant cannot be run.
std::optional<std::vector<Variant>> run_variants(Context& context,
                                                 const SimulateInput& input,
                                                 const Program& program,
                                                 const Simulation& outcome);

}  // namespace shardplan::cli
