// SPDX-License-Identifier: Apache-2.0
// recomputed_instructions(): the instructions that are recomputed before the
// backward of their layer, because a policy of rematerialisation does not save
// what backward reads.
#pragma once

#include "activations/remat.h"
#include "activations/saved_values.h"

namespace shardplan {

// Returns all instructions between what is saved and what backward reads. The
// last products of a layer, which nothing reads, are not recomputed.
PerInstruction<bool> recomputed_instructions(const ProgramView& view,
                                             const SavedValues& saved,
                                             const Remat& remat);

}  // namespace shardplan
