// SPDX-License-Identifier: Apache-2.0
// What `simulate` found, as a report and as diagnostics.
#pragma once

#include <span>

#include "cli/commands.h"
#include "cli/commands/simulate/input.h"
#include "cli/views/precision_report.h"
#include "report/report.h"
#include "sim/simulate.h"

namespace shardplan::cli {

// `runs`: the one asked for, then those of --vary. `expected`: of --expect, how
// far the outputs are from those that were recorded. Refers to all arguments:
// they must outlive the report.
Report simulate_report(const Context& context, const SimulateInput& input,
                       const Program& program, std::span<const Variant> runs,
                       std::span<const ExpectedError> expected = {});

}  // namespace shardplan::cli
