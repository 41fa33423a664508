// SPDX-License-Identifier: Apache-2.0
// `simulate --vary`: the same model, on the same values, with other sizes of a
// mesh axis or other algorithms.
#pragma once

#include <optional>
#include <vector>

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "cli/views/simulate_report.h"
#include "sim/simulate.h"

namespace shardplan::cli {

SimulateOptions simulate_options(Context& context, const SimulateInput& input);

// What was run already, then every variant: divisors of the size of an axis,
// and every algorithm that can do all of the program's reductions. One that
// computes something else is SP504. Empty, with the reason reported, when
// --vary names neither (SP010) or a variant cannot be run.
std::optional<std::vector<Variant>> run_variants(Context& context,
                                                 const SimulateInput& input,
                                                 const Program& program,
                                                 const Simulation& outcome);

}  // namespace shardplan::cli
