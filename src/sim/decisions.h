// SPDX-License-Identifier: Apache-2.0
// Choices that an operation makes (OpDef::is_decision), such as the experts of
// a token: rounding may turn them over, so that results of two runs could not
// be compared. The unsharded run in double precision decides for all.
#pragma once

#include <cstdint>

#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

bool is_decision(const Program& program, const Instruction& instruction);

// Puts the devices' parts of a recorded choice in the place of their own, and
// says how many entries of the whole they would have chosen otherwise. What has
// another shape than its part stays as it is.
int64_t replay(const Program& program, const Instruction& instruction,
               const Tensor& recorded, DeviceTensors& made);

}  // namespace shardplan
