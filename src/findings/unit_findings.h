// SPDX-License-Identifier: Apache-2.0
// Findings about split units (SP206): their texts, by kind of unit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mesh.h"
#include "core/rules.h"
#include "core/types.h"
#include "model/units.h"

namespace shardplan {

// A unit that a placement splits.
struct SplitUnit {
  Unit unit;
  AxisNames axes;      // axes that split it
  int64_t shards = 1;  // their product
  TensorType type;
  int64_t size = 0;  // of the dimension, as stored
};

// Returns "tp=16 splits the KV heads of" or "fsdp=4 splits the stacked layers
// of".
std::string split_message(const SplitUnit& split, const Mesh& mesh);

// Returns the parts that a device would have: "8 KV heads over 16 shards: half
// a KV head on each, though 1024 mod 16 = 0".
std::string split_fact(const SplitUnit& split);

// Returns, for each axis, all of its sizes that split nothing while the other
// axes are fixed: "`tp` may be 1, 2, 4 or 8".
std::string legal_sizes(const SplitUnit& split, const Mesh& mesh,
                        const Declarations& declared);

// Returns the help: changes to the plan, or the declaration of what is done
// instead.
std::vector<std::string> split_help(const SplitUnit& split,
                                    const Declarations& declared);

}  // namespace shardplan
