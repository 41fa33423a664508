// SPDX-License-Identifier: Apache-2.0
// Shardings of XLA's older partitioner, in the form of `mhlo.sharding`.
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
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "core/spec.h"

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

}  // namespace shardplan
