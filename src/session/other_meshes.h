// SPDX-License-Identifier: Apache-2.0
// The meshes that are tried where a plan does not fit on the one asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "core/mesh.h"
#include "session/budget.h"
#include "session/session.h"

namespace shardplan {

struct OtherMesh {
  bool more_devices = false;  // else as many, otherwise cut
  int64_t factor = 2;
  Mesh mesh;
  bool adds_axis = false;
};

// As many devices with a factor moved from one axis to another, and 2, 4 and 8
// times as many with an axis as much longer; the smallest factor first, at
// most so many of either kind.
std::vector<OtherMesh> other_meshes(const PlanRequest& planning,
                                    const MemoryRequest& memory,
                                    const Session& session, int64_t most);

}  // namespace shardplan
