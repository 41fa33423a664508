// SPDX-License-Identifier: Apache-2.0
// Gathered layers: under FSDP a layer's weights are gathered over the axes of
// the batch (resolve/gathered_axes.h), and under ZeRO-3 over its axes, before
// they are used.
//
// The gathered copy exists beside the shards; weights that no such axis cuts
// are used where they are, and cost nothing more.
#pragma once

#include <cstdint>
#include <vector>

#include "base/checked.h"
#include "core/plan.h"
#include "memory/state.h"

namespace shardplan {

// Bytes of one parameter once it is gathered, in the compute dtype; 0 when
// nothing is gathered. `leaf` is the parameter's own (StateKind::Parameter).
// `stacked_dim`: the dimension along which a tensor stacks layers, of which one
// layer's part is gathered; -1: none.
int64_t gathered_bytes(const Placement& placement, const StateLeaf& leaf,
                       const Mesh& mesh, OnIndivisible policy,
                       const StateOptions& options, int stacked_dim);

// What the `live` largest of these take together: bytes of a unit, and how many
// such units there are.
struct GatheredUnit {
  int64_t bytes = 0;
  int64_t units = 0;
};
Int128 largest_gathered(std::vector<GatheredUnit> units, int64_t live);

}  // namespace shardplan
