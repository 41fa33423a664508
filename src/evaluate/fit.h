// SPDX-License-Identifier: Apache-2.0
// The one answer to whether what was asked for fits: the training step where
// there is one, what an engine holds where one serves, else the state.
#pragma once

#include "activations/bracket.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "serve/serving.h"

namespace shardplan {

// `step` is null where no training step is asked for. A state that does not fit
// (SP301) decides, whatever the step's range.
Fit fit_of(const Budget& budget, const MemoryBracket* step);

// Of each data-parallel group's share of the sequences asked for, at least one.
// No headroom is known where the engine refuses the degrees.
Fit fit_of(const Serving& serving);

}  // namespace shardplan
