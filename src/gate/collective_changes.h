// SPDX-License-Identifier: Apache-2.0
// Collectives of a forward pass that are new, gone, more or fewer after a
// change.
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
    Same,  // the model and all of its placements are
    Compared,
    Unknown,
  };
  How how = How::NotAsked;
  // "2x16 tokens in bf16", or why nothing is known of them.
  std::string text;
  // What does not are sharded as the rules ask, so that a run may send
  // something else;
  // "" where all does.
  std::string doubt = {};
};

// One side: its plan, and what a forward pass under it sends.
struct SideCollectives {
  const Session& session;
  const std::vector<CollectiveUse>& uses;
};

// Collectives of one kind along the same axes, for the same reason, that change
// alike are one change. Before and after are how often they are there or, where
// that is the same, the bytes that a device sends. The largest first.
std::vector<GateChange> collective_changes(const std::string& target,
                                           const SideCollectives& before,
                                           const SideCollectives& after);

}  // namespace shardplan
