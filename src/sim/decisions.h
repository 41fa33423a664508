// SPDX-License-Identifier: Apache-2.0
// Choices that an operation makes (OpDef::is_decision), such as the experts of
// a token: rounding may turn them over, so that results of two runs could not
// be compared. The unsharded run in double precision decides for all.
//
// What replaces a choice also hides it. So every choice that devices make in
// double precision is looked at before: one that rounding does not explain is a
// mistake of the plan.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/simulate.h"
#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

// How far apart two scores may be that rounding turned over, as a part of the
// norm of their row (row_scales, sim/verdict.h): runs agree that differ by less
// than kMismatch, and each of the two scores may be off by as much.
inline constexpr double kTie = 2 * 0x1p-30;

bool is_decision(const Program& program, const Instruction& instruction);

// The first device, and there the first entry, whose own choice is not the one
// recorded, although the scores that it chose between do not tie. `scores`: the
// whole first operand in the unsharded run, in doubles. A result of another
// shape than the device's part is a mismatch as well, and so is any other
// choice of an operation that does not give indices along the last dimension.
std::optional<Divergence> wrong_choice(const Program& program,
                                       const Instruction& instruction,
                                       const Tensor& scores,
                                       const Tensor& recorded,
                                       const DeviceTensors& made);

// Puts the devices' parts of a recorded choice in the place of their own, and
// says how many entries of the whole some device would have chosen otherwise.
// What has another shape than its part stays as it is.
int64_t replay(const Program& program, const Instruction& instruction,
               const Tensor& recorded, DeviceTensors& made);

}  // namespace shardplan
