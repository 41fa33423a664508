// SPDX-License-Identifier: Apache-2.0
// Where a sharded run parts from the unsharded one.
#pragma once

#include <functional>
#include <optional>

#include "sim/execute.h"
#include "sim/lanes.h"
#include "sim/simulate.h"

namespace shardplan {

// What an instruction made, against the unsharded value: the first device that
// has something else than its part. Parts of sums are not looked at: their sum
// is, where someone needs it.
std::optional<Divergence> divergence_of(const Program& program,
                                        const Instruction& instruction,
                                        const DeviceTensors& made,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic);

// The first such instruction, in the order in which they run: both runs advance
// until they part, and nothing is kept. `stop`: the same as in SimulateOptions.
std::optional<Divergence> first_divergence(Lanes& lanes,
                                           const std::function<bool()>& stop);

}  // namespace shardplan
