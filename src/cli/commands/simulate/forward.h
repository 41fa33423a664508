// SPDX-License-Identifier: Apache-2.0
// Compares the collectives of a target's forward pass on the two sides of a
// gate, if the forward pass is known.
#pragma once

#include <vector>

#include "base/host.h"
#include "cli/targets.h"
#include "gate/changes.h"
#include "gate/collective_changes.h"

namespace shardplan::cli {

struct ComparedCollectives {
  CollectiveCoverage coverage;
  std::vector<GateChange> changes;
};

// The tokens are those of the target's batch and sequence length; decoding
// reads one token per sequence. Sizes that the target does not set are the
// defaults of `simulate`. Activations have the dtype of most weights.
ComparedCollectives compare_collectives(const CheckedTarget& before,
                                        const CheckedTarget& after);

}  // namespace shardplan::cli
