// SPDX-License-Identifier: Apache-2.0
// Shardings in StableHLO text. First those of XLA's older partitioner, in the
// form of `mhlo.sharding`; Shardy's follow below.
//
//   {devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}    {replicated}
//
// The devices 0, 1, .. in row-major order, reshaped to [4,2] and transposed by
// (1,0), are split into tiles of [2,4], one size per dimension. With
// `last_tile_dim_replicate` the last size is a number of replicas. This form
// does not name axes. Source: openxla/xla, HloSharding::ToString and the parser
// of HLO text (iota tile assignments, "v2").
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
  // Empty if replicated.
  std::vector<int64_t> tiles;    // per dimension, then replicas
  std::vector<int64_t> reshape;  // shape that the devices are given
  std::vector<int64_t> order;    // order of the dimensions of `reshape`
  bool last_is_replicas = false;
  Span where;
  // Returns the number of dimensions of the tensor.
  size_t rank() const { return tiles.size() - (last_is_replicas ? 1 : 0); }
  // Returns the product of `tiles`, which is also that of `reshape`.
  int64_t devices() const;
};

// Parses a sharding; `where` is the string in its file. Reports SP002, and
// SP014 for a sharding that no spec expresses (one device, manual dimensions, a
// custom order of devices).
std::optional<HloSharding> parse_hlo_sharding(std::string_view text, Span where,
                                              Diagnostics& diags);

// Returns the sizes of mesh axes that all the shardings consist of, major to
// minor; empty if all are replicated. Reports SP014 if there are no such axes.
std::optional<std::vector<int64_t>> axis_sizes_of(
    std::span<const HloSharding> shardings, Diagnostics& diags);

// Returns the spec on a mesh with those sizes. REQUIRES: axis_sizes_of()
// returned the sizes.
PartitionSpec spec_of(const HloSharding& sharding, std::span<const Axis> mesh);

// Shardy's attributes: meshes, and the sharding of one tensor on one of them.
//
//   #sdy.sharding<@mesh, [{"a"}, {"b", ?}p1], replicated={"y"}>
//
// Propagation may shard an open dimension (`?`) further, in the order of
// priorities; the listed axes apply in any case. Source: the Shardy dialect,
// shardy/dialect/sdy/ir/attrs.td and its parsing tests.

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
