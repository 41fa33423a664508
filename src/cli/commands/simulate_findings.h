// SPDX-License-Identifier: Apache-2.0
// What `simulate` has to say against a plan, as diagnostics.
#pragma once

#include "base/diagnostic.h"
#include "cli/commands/simulate_input.h"
#include "sim/simulate.h"

namespace shardplan::cli {

// SP501, SP502 for what is resharded without being asked for, the same in every
// layer once; SP505 for biases that are added once per device; SP507 and SP508
// for parameters that are not read, or in two layouts. Before anything is run.
void report_program(const SimulateInput& input, const Program& program,
                    Diagnostics& diags);
// SP512 and SP513: what keeps a run from telling, and values that its working
// precision cannot hold.
void report_doubts(const SimulateInput& input, const Program& program,
                   const Simulation& outcome, Diagnostics& diags);
// These, SP503, SP504, SP509 and SP510.
void report_outcome(const SimulateInput& input, const Program& program,
                    const Simulation& outcome, Diagnostics& diags);
// SP510: choices that rounding would have turned over.
void report_decisions(const Simulation& outcome, Diagnostics& diags);
// SP509: tokens (counted once per expert chosen) that experts have no room for.
void report_dropped_tokens(int64_t dropped, int64_t routed, Diagnostics& diags);

// The value that a collective serves, as the graph file names it: the result of
// the operation that needs it or, for outputs, what is moved.
std::string served_value(const Program& program, const Instruction& at);

}  // namespace shardplan::cli
