// SPDX-License-Identifier: Apache-2.0
// What `gate` compares of a target besides its plan: the collectives of a
// forward pass, where one is known.
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

// Tokens are those of the target's batch and sequence length, in decoding one
// of each sequence; what is not given is as `simulate` runs it without being
// told. Numbers are of the type that most weights have.
ComparedCollectives compare_collectives(const JudgedTarget& before,
                                        const JudgedTarget& after);

}  // namespace shardplan::cli
