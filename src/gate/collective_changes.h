// SPDX-License-Identifier: Apache-2.0
// collective_changes(): the collectives of a forward pass that are new, gone,
// more or fewer after a change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gate/changes.h"
#include "session/session.h"
#include "sim/forward_collectives.h"

namespace shardplan {

// Whether the collectives of a target were compared.
struct CollectiveCoverage {
  enum class How : uint8_t {
    NotAsked,
    Same,  // the model and all of its placements are the same
    Compared,
    Unknown,
  };
  How how = How::NotAsked;
  // "2x16 tokens in bf16", or why the collectives are unknown.
  std::string text;
  // The values that are not sharded as the rules ask, so that a run may
  // communicate differently; "" if there are none.
  std::string doubt = {};
};

// One side: its plan, and the collectives of a forward pass under it.
struct SideCollectives {
  const Session& session;
  const std::vector<CollectiveUse>& uses;
};

// Returns the changes of collectives. Collectives of one kind, along the same
// axes, for the same reason and with the same trend are one change. Its values
// are their counts or, if the counts are equal, the bytes that a device sends.
// The largest changes come first.
std::vector<GateChange> collective_changes(const std::string& target,
                                           const SideCollectives& before,
                                           const SideCollectives& after);

}  // namespace shardplan
