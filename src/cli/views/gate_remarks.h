// SPDX-License-Identifier: Apache-2.0
// What a code review is told of a gate at the lines that did it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "cli/views/gate_tables.h"
#include "gate/changes.h"

namespace shardplan::cli {

// The changes that fail of nothing, as notes (SP601, SP606): those of one
// line are one, of all targets, and so are those without a line. Findings are
// left out: what is new of them is a diagnostic of its own. They point into the
// sources that the changes point into.
Diagnostics gate_remarks(const GateView& view);

// The code that stands for a change which is not a finding of a target itself.
Code code_of(const GateChange& change);
// Where a change is shown: its line, but nowhere when that is of a revision
// that no reader has before him.
Span place_of_change(const GateChange& change, bool base_is_there);
// A finding as it is after the change, where it is new or graver than it was:
// no error unless it fails.
std::optional<Diagnostic> new_finding(const std::vector<GateChange>& changes,
                                      const Diagnostic& diagnostic);
// An error where a change fails that is not a finding itself.
void report_failure(const GateChange& change, bool base_is_there,
                    Diagnostics& diags);

// A warning that `--fail-on time>P%` has nothing to judge, for this reason.
void report_unjudged_time(const std::string& why, Diagnostics& diags);

}  // namespace shardplan::cli
