// SPDX-License-Identifier: Apache-2.0
// Where a sharded run parts from the unsharded one.
#pragma once

#include <optional>
#include <span>

#include "sim/execute.h"
#include "sim/simulate.h"

namespace shardplan {

// The first register, in the order of the program, in which a device has
// something else than its part of the unsharded value. Parts of sums are not
// looked at: their sum is, where someone needs it. REQUIRES: all registers were
// kept.
std::optional<Divergence> first_divergence(const Program& program,
                                           const Execution& run,
                                           std::span<const Tensor> unsharded,
                                           Arithmetic arithmetic);

}  // namespace shardplan
