// SPDX-License-Identifier: Apache-2.0
// What a training step gives cause to report: one that does not fit, or may
// not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "activations/bracket.h"
#include "base/diagnostic.h"
#include "memory/budget.h"
#include "memory/divisions.h"
#include "memory/fit.h"

namespace shardplan {

struct StepFinding {
  const DeviceLimit& limit;
  const MemoryBracket& bracket;
  std::vector<TriedChange> tried;  // the smallest change first
};

// What may be changed, in words: of those that fit the smallest first, then the
// two that come nearest.
std::vector<std::string> ways_out(const StepFinding& finding);

// The SP301 that was reported last; null where there is none.
Diagnostic* find_over_memory(Diagnostics& diags);

// SP301 where the lower bound is over capacity, SP306 where the upper one
// is. REQUIRES: the state alone fits.
void report_step(const StepFinding& finding, Diagnostics& diags);

// SP309: what does not divide, of the step of a framework ("any").
void report_divisions(const std::vector<DivisionProblem>& problems,
                      Diagnostics& diags);

}  // namespace shardplan
