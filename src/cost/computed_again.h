// SPDX-License-Identifier: Apache-2.0
// Which instructions run a second time before the backward of their layer,
// where a policy of rematerialisation does not keep what backward reads.
#pragma once

#include "activations/kept.h"
#include "activations/remat.h"

namespace shardplan {

// All that lies between what backward reads and what is kept: the last products
// of a layer, which nothing reads, do not run again.
PerInstruction<bool> computed_again(const ProgramView& view,
                                    const KeptValues& kept, const Remat& remat);

}  // namespace shardplan
