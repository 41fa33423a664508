// SPDX-License-Identifier: Apache-2.0
// Lanes: the unsharded and the sharded run of a graph in one arithmetic, which
// advance together, so that values can be compared while both have them and
// released when neither needs them.
#pragma once

#include "graph/evaluate.h"
#include "sim/execute.h"
#include "sim/held_values.h"
#include "sim/lifetimes.h"

namespace shardplan {

struct Lanes {
  // REQUIRES: all three outlive the lanes.
  Lanes(const Program& program, const Lifetimes& lives, HeldValues& held,
        const ExecuteOptions& options);

  const Program& program;
  const Lifetimes& lives;
  HeldValues& held;
  ExecuteOptions options;
  Evaluation unsharded;
  std::vector<bool> integers;  // integer_values
  ShardedRun sharded;
  // Results of the unsharded run that are held, of the nodes before `seen`.
  std::vector<size_t> present = {};
  size_t seen = 0;
};

// The unsharded run's part of a stretch: its node, if there is one. The sharded
// run advances by itself (ShardedRun::advance).
void advance_unsharded(Lanes& lanes, int stretch);

// To be called when both have done the stretch, but for the last one: outputs
// stay. Inputs and parameters are released by whom they belong to.
void release_results(Lanes& lanes, int stretch);

}  // namespace shardplan
