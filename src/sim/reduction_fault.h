// SPDX-License-Identifier: Apache-2.0
// Why a sharded value is wrong, where a reduction over devices explains it: one
// that is missing, done once too often, over other axes, or of another kind.
//
// What every device computed before anything was reduced is put together in
// all ways there are; the one that gives the unsharded value is what should
// have been done.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/spec.h"
#include "sim/simulate.h"

namespace shardplan {

// REQUIRES: nothing of the runs has run, and the sharded one has that register,
// which differs from the unsharded value. `begin` as of first_divergence.
// Empty where no reduction explains it.
std::optional<ReductionFault> reduction_fault_of(
    PairedRuns& runs, RegisterId number,
    const std::function<bool(int phase)>& begin = {});

}  // namespace shardplan
