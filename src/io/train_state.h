// SPDX-License-Identifier: Apache-2.0
// Which arrays of a saved training state are parameters.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardplan {

enum class StatePart : uint8_t {
  Parameter,
  Counter,    // the step, and keys and counters of random numbers
  Optimizer,  // moments and the like, which `--optimizer` computes
};

// Told by the name's components, cut at `/` or `.`: those below `opt_state` or
// `optimizer` are the optimizer's, `step` and what is below `rngs` count
// something, everything else is a parameter.
StatePart state_part(std::string_view name);

}  // namespace shardplan
