// SPDX-License-Identifier: Apache-2.0
// Findings about a training step: it does not fit, may not fit, or does not
// divide.
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

// Returns the proposed changes in words: those that fit, the smallest first,
// then the two that come nearest.
std::vector<std::string> suggested_changes(const StepFinding& finding);

// Returns the SP301 that was reported last; null if there is none.
Diagnostic* find_over_memory(Diagnostics& diags);

// Reports SP301 if the lower bound is over capacity, SP306 if the upper bound
// is. REQUIRES: the state alone fits.
void report_step(const StepFinding& finding, Diagnostics& diags);

// Reports the counts that are not divisible (SP309).
void report_divisions(const std::vector<DivisionProblem>& problems,
                      Diagnostics& diags);

}  // namespace shardplan
