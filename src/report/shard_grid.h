// SPDX-License-Identifier: Apache-2.0
// A drawing of a shard map: boxes with the ids of the devices that hold them.
//
//                 0:8      8:16
//          ┌─────────┬─────────┐
//     0:16 │     0,4 │     1,5 │
//          ├─────────┼─────────┤
//    16:32 │     2,6 │     3,7 │
//          └─────────┴─────────┘
//
// As jax.debug.visualize_array_sharding draws it, but for any rank: of more
// than two dimensions the last two that are cut are drawn, once for each index
// of the others. What does not fit is left out, and how much is said.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace shardplan {

// The dimensions that are rows and columns of the boxes. A tensor of one
// dimension has no rows, a scalar neither.
struct DrawnDims {
  int row = -1;
  int column = -1;
};
DrawnDims drawn_dims(const DeviceSlices& map);

// Lines of at most `width` columns where boxes can be as narrow. `expand`:
// nothing is left out; columns that do not fit are drawn below.
std::vector<std::string> draw_shards(const DeviceSlices& map, int width,
                                     bool expand);

// "0-3,8", or so much of it as fits: "0-3,.. (12)" are 12 devices in all. At
// least the first and the number are shown.
std::string device_list_text(const std::vector<int64_t>& devices, int width);

}  // namespace shardplan
