// SPDX-License-Identifier: Apache-2.0
// Which devices take part in a collective together, and which device gets its
// shard from which when axes change places.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/collective.h"
#include "core/mesh.h"
#include "core/types.h"
#include "spmd/layout.h"

namespace shardplan {

// One group per combination of the other axes' coordinates; within a group
// devices stand in the order of ranks: `axes` major to minor.
std::vector<std::vector<int>> device_groups(const Mesh& mesh,
                                            const AxisNames& axes);

// How many ranks that are, the last axis being the fast one.
Ranks ranks_along(const Mesh& mesh, const AxisNames& axes);

// Per device, the one whose shard under `from` is its own under `to`. Every
// device sends to exactly one; those that hold what they need keep it.
// REQUIRES: both have the same local shape and the same partial axes.
std::vector<int> permute_sources(const Mesh& mesh, const Layout& from,
                                 const Layout& to);

// The shard of every dimension that a device holds.
std::vector<int64_t> shard_indices(const Mesh& mesh, const Layout& layout,
                                   int64_t device);

}  // namespace shardplan
