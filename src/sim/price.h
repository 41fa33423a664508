// SPDX-License-Identifier: Apache-2.0
// What the collectives of a program cost, by closed forms: nothing is executed,
// and no schedule is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/rounding.h"
#include "spmd/program.h"

namespace shardplan {

struct CollectivePrice {
  int instruction = 0;
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;
  std::string algorithm;
  int64_t bytes = 0;  // over all devices
  Cause cause = Cause::Implicit;
};

// One per instruction that moves bytes, overlapped products included, of
// numbers of the types that a run keeps them in (sim/precision.h).
std::vector<CollectivePrice> price(const Program& program, Storage storage,
                                   Storage reduce);

}  // namespace shardplan
