// SPDX-License-Identifier: Apache-2.0
// The shardings of XLA's older partitioner, as `mhlo.sharding` has them:
//
//   {devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}    {replicated}
//
// The devices 0, 1, .. in row-major order, reshaped to [4,2] and transposed by
// (1,0), are cut into tiles of [2,4], one size per dimension; with
// `last_tile_dim_replicate` the last size counts replicas. There are no names
// of axes in it. Source: openxla/xla, HloSharding::ToString and the parser of
// HLO text (iota tile assignments, "v2").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "syntax/mlir.h"

namespace shardplan {

struct HloSharding {
  // Empty: replicated.
  std::vector<int64_t> tiles;    // per dimension, then replicas
  std::vector<int64_t> reshape;  // of the devices
  std::vector<int64_t> order;    // of the dimensions of `reshape`
  bool last_is_replicas = false;
  Span where;
  // Dimensions of the tensor that it is for.
  size_t rank() const { return tiles.size() - (last_is_replicas ? 1 : 0); }
  // Product of `tiles`, which is that of `reshape`.
  int64_t devices() const;
};

// `where` is the string in its file. Reports SP002; what no spec says (one
// device, manual dimensions, devices in an order of their own) is SP014.
std::optional<HloSharding> parse_hlo_sharding(std::string_view text, Span where,
                                              Diagnostics& diags);

// The sizes of mesh axes that all the shardings are made of, major to minor;
// empty when all are replicated. Reports SP014 where there are none.
std::optional<std::vector<int64_t>> axis_sizes_of(
    std::span<const HloSharding> shardings, Diagnostics& diags);

// The spec on a mesh with those sizes. REQUIRES: axis_sizes_of made the sizes.
PartitionSpec spec_of(const HloSharding& sharding, std::span<const Axis> mesh);

// Shardy's attributes: meshes, and the sharding of one tensor on one of them.
//
//   #sdy.sharding<@mesh, [{"a"}, {"b", ?}p1], replicated={"y"}>
//
// Source: the Shardy dialect, shardy/dialect/sdy/ir/attrs.td and its tests of
// parsing. An open dimension (`?`) may be sharded further by propagation, and
// priorities order that; the axes that are listed hold in any case.

struct ShardyMesh {
  std::vector<AxisRequest> axes;
  bool has_device_ids = false;  // not in the order of their numbers
  Span where;
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
  AxisNames replicated;
  bool open_beside_axes = false;  // somewhere {"a", ?}
  bool priorities = false;
  Span where;
};

// A value of the attribute `sdy.sharding`, from `#sdy` on. Reports SP002, or
// SP014 for sub-axes, which no mesh axis is, and for partial sums.
std::optional<ShardySharding> parse_shardy_sharding(MlirCursor& cursor,
                                                    Diagnostics& diags);

}  // namespace shardplan
