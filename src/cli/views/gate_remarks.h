// SPDX-License-Identifier: Apache-2.0
// What a code review is told of a gate at the lines that did it.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "cli/views/gate_tables.h"
#include "gate/changes.h"

namespace shardplan::cli {

// The changes that fall short of nothing, as notes (SP601, SP606): those of one
// line are one, of all targets, and so are those without a line. Findings are left out: what
// is new of them is a diagnostic of its own. They point into the sources that
// the changes point into.
Diagnostics gate_remarks(const GateView& view);

// The code that stands for a change which is no finding of a target itself.
Code code_of(const GateChange& change);
// Where a change is shown: its line, but nowhere when that is of a revision
// that no reader has before him.
Span place_of_change(const GateChange& change, bool base_is_there);

}  // namespace shardplan::cli
