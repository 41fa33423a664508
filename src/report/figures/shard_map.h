// SPDX-License-Identifier: Apache-2.0
// Draws a shard map: boxes with the ids of the devices that hold them.
//
//                 0:8      8:16
//          ┌─────────┬─────────┐
//     0:16 │     0,4 │     1,5 │
//          ├─────────┼─────────┤
//    16:32 │     2,6 │     3,7 │
//          └─────────┴─────────┘
//
// The drawing looks like that of jax.debug.visualize_array_sharding, but
// supports any rank: the last two sharded dimensions are drawn, once for each
// index of the other sharded ones. Boxes that do not fit are omitted, and a
// line says how many.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace shardplan {

// The dimensions that are the rows and columns of the boxes. A tensor of one
// dimension has no rows; a scalar has neither.
struct DrawnDims {
  int row = -1;
  int column = -1;
};
DrawnDims drawn_dims(const DeviceSlices& map);

// Returns lines of at most `width` columns, as far as boxes can be that narrow.
// With `expand` nothing is omitted: columns that do not fit are drawn below.
std::vector<std::string> draw_shards(const DeviceSlices& map, int width,
                                     bool expand);

// Returns "0-3,8", or the part that fits: "0-3,.. (12)" stands for 12 devices.
// At least the first device and the number are shown.
std::string device_list_text(const std::vector<int64_t>& devices, int width);

}  // namespace shardplan
