// SPDX-License-Identifier: Apache-2.0
// computed_again(): the instructions that are recomputed before the backward of
// their layer, because a policy of rematerialisation does not save what
// backward reads.
#pragma once

#include "activations/kept.h"
#include "activations/remat.h"

namespace shardplan {

// Returns all instructions between what is saved and what backward reads. The
// last products of a layer, which nothing reads, are not recomputed.
PerInstruction<bool> computed_again(const ProgramView& view,
                                    const KeptValues& kept, const Remat& remat);

}  // namespace shardplan
