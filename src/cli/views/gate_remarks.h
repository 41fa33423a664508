// SPDX-License-Identifier: Apache-2.0
// The notes and errors of a gate that a code review shows at the lines that
// caused a change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "cli/views/gate_tables.h"
#include "gate/changes.h"

namespace shardplan::cli {

// Returns the changes that fail nothing, as notes (SP601, SP606). All changes
// of one line, over all targets, become one note, as do those without a line.
// Findings are omitted, since each new finding is a diagnostic of its own. The
// notes point into the sources that the changes point into.
Diagnostics gate_remarks(const GateView& view);

// Returns a finding that is new or has become more severe, as it is after the
// change. It is an error only if it fails the gate.
std::optional<Diagnostic> new_finding(const std::vector<GateChange>& changes,
                                      const Diagnostic& diagnostic);
// Reports an error for a change that fails and is not itself a finding.
void report_failure(const GateChange& change, bool base_is_there,
                    Diagnostics& diags);

// Reports a warning that `--fail-on time>P%` has nothing to compare, and why.
void report_unjudged_time(const std::string& why, Diagnostics& diags);

}  // namespace shardplan::cli
