// SPDX-License-Identifier: Apache-2.0
// What SP206 says of each kind of unit: the words, not the finding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mesh.h"
#include "core/rules.h"
#include "core/types.h"
#include "model/units.h"

namespace shardplan {

// A unit that a placement cuts.
struct SplitUnit {
  Unit unit;
  AxisNames axes;      // that cut it
  int64_t shards = 1;  // their product
  TensorType type;
  int64_t size = 0;  // of the dimension, as stored
};

// "tp=16 cuts the KV heads of", "fsdp=4 spreads the stacked layers of".
std::string split_message(const SplitUnit& split, const Mesh& mesh);

// What a device would have: "8 KV heads over 16 shards: half a KV head on each,
// though 1024 mod 16 = 0".
std::string split_fact(const SplitUnit& split);

// "`tp` may be 1, 2, 4 or 8", for each axis while the others stay; every size.
std::string legal_sizes(const SplitUnit& split, const Mesh& mesh,
                        const Declarations& declared);

// What to do about it: change the plan, or declare what is done instead.
std::vector<std::string> split_help(const SplitUnit& split,
                                    const Declarations& declared);

}  // namespace shardplan
