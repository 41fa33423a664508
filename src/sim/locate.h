// SPDX-License-Identifier: Apache-2.0
// Where a sharded run parts from the unsharded one.
#pragma once

#include <functional>
#include <optional>

#include "sim/execute.h"
#include "sim/lanes.h"
#include "sim/simulate.h"

namespace shardplan {

// What the devices have of a register, against the unsharded value: the first
// that has something else than its part. Parts of sums are not looked at: their
// sum is, where someone needs it.
std::optional<Divergence> divergence_of(const Program& program, int number,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic);

// The first register for which it is so. Both runs advance until they part, and
// nothing is kept. In floating point, choices are those of the unsharded run.
// `begin` is called before every stretch; where it gives false, nothing more is
// run. REQUIRES: nothing of the lanes has run.
std::optional<Divergence> first_divergence(
    Lanes& lanes, const std::function<bool(int stretch)>& begin = {});

}  // namespace shardplan
