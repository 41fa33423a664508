// SPDX-License-Identifier: Apache-2.0
// ReductionFault: why a sharded value is wrong, if a reduction over devices
// explains it: one that is missing, done once too often, over other axes, or of
// another kind.
//
// What every device computed before any reduction is combined in all possible
// ways; the way that gives the unsharded value is what should have been done.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/spec.h"
#include "sim/simulate.h"

namespace shardplan {

// Returns the fault of a register, or nothing if no reduction explains it.
// `begin` is that of first_divergence(). REQUIRES: neither run has started, and
// the sharded run has register `number`, which differs from the unsharded
// value.
std::optional<ReductionFault> reduction_fault_of(
    PairedRuns& runs, RegisterId number,
    const std::function<bool(int phase)>& begin = {});

}  // namespace shardplan
