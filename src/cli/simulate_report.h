// SPDX-License-Identifier: Apache-2.0
// What `simulate` found, as a report and as diagnostics.
#pragma once

#include "cli/commands.h"
#include "cli/simulate_input.h"
#include "report/report.h"
#include "sim/simulate.h"

namespace shardplan::cli {

// Refers to all of them: they must outlive the report.
Report simulate_report(const Context& context, const SimulateInput& input,
                       const Program& program, const Simulation& outcome);

}  // namespace shardplan::cli
