// SPDX-License-Identifier: Apache-2.0
// fit_of(): the one answer to whether a request fits. It covers the training
// step if there is one, what an engine holds if one serves, else the state.
#pragma once

#include "activations/bracket.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "serve/serving.h"

namespace shardplan {

// Reports whether a training step or a state fits. `step` is null if no
// training step is requested. A state that does not fit (SP301) decides the
// answer, whatever the step's range.
Fit fit_of(const Budget& budget, const MemoryBracket* step);

// Reports whether each data-parallel group holds its share of the requested
// sequences, at least one. Headroom is unknown if the engine refuses the
// degrees.
Fit fit_of(const Serving& serving);

}  // namespace shardplan
