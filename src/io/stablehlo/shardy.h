// SPDX-License-Identifier: Apache-2.0
// Shardy's attributes: meshes, and the sharding of one tensor on one of them.
//
//   #sdy.sharding<@mesh, [{"a"}, {"b", ?}p1], replicated={"y"}>
//
// Propagation may shard an open dimension (`?`) further, in the order of
// priorities; the listed axes apply in any case. Source: the Shardy dialect,
// shardy/dialect/sdy/ir/attrs.td and its parsing tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "syntax/mlir.h"

namespace shardplan {

struct ShardyMesh {
  std::vector<AxisRequest> axes;
  bool has_device_ids = false;  // devices in a custom order
  Span where;
};

// Parses `<["a"=2, "b"=4]>`, with `, device_ids=[..]` after the list.
std::optional<ShardyMesh> parse_shardy_mesh(MlirCursor& cursor,
                                            Diagnostics& diags);

struct ShardySharding {
  std::string mesh_name;  // empty: inlined
  std::optional<ShardyMesh> inlined;
  // {?} alone is kUnconstrained; for {"a", ?} only the axes.
  PartitionSpec spec;
  std::vector<Span> dim_where;
  AxisNames replicated;
  bool open_after_axes = false;  // somewhere {"a", ?}
  bool priorities = false;
  Span where;
};

// Parses a value of the attribute `sdy.sharding`, from `#sdy` on. Reports
// SP002, and SP014 for sub-axes, which are not mesh axes, and for partial sums.
std::optional<ShardySharding> parse_shardy_sharding(MlirCursor& cursor,
                                                    Diagnostics& diags);

}  // namespace shardplan
