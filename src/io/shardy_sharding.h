// SPDX-License-Identifier: Apache-2.0
// Shardy's attributes: meshes, and the sharding of one tensor on one of them.
//
//   #sdy.sharding<@mesh, [{"a"}, {"b", ?}p1], replicated={"y"}>
//
// Source: the Shardy dialect, shardy/dialect/sdy/ir/attrs.td and its tests of
// parsing. An open dimension (`?`) may be sharded further by propagation, and
// priorities order that; the axes that are listed hold in any case.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "io/mlir_cursor.h"

namespace shardplan {

struct ShardyMesh {
  std::vector<AxisRequest> axes;
  bool has_device_ids = false;  // not in the order of their numbers
  Span where;

  // The same names and sizes.
  bool is_like(const ShardyMesh& other) const;
};

// `<["a"=2, "b"=4]>`, with `, device_ids=[..]` behind the list.
std::optional<ShardyMesh> parse_shardy_mesh(MlirCursor& cursor,
                                            Diagnostics& diags);

struct ShardySharding {
  std::string mesh_name;  // empty: inlined
  std::optional<ShardyMesh> inlined;
  // {?} alone is kUnconstrained; of {"a", ?} the axes.
  PartitionSpec spec;
  std::vector<Span> dim_where;
  std::vector<AxisName> replicated;
  bool open_beside_axes = false;  // somewhere {"a", ?}
  bool priorities = false;
  Span where;
};

// A value of the attribute `sdy.sharding`, from `#sdy` on. Reports SP002, or
// SP014 for sub-axes, which no mesh axis is, and for partial sums.
std::optional<ShardySharding> parse_shardy_sharding(MlirCursor& cursor,
                                                    Diagnostics& diags);

}  // namespace shardplan
