// SPDX-License-Identifier: Apache-2.0
// PartitionSpec: which mesh axes shard which dimension, by name only.
// Sharding: a spec bound to a mesh, with the shards' sizes and places.
//
// A dimension with axes (a1, .., ak) is cut into |a1| x .. x |ak| shards; a1 is
// the most significant digit of the shard's index, so ("dp","tp") and
// ("tp","dp") place different slices on a device. Axes that a spec does not
// name replicate. `[]` and `[null]` are different specs.
//
// A Sharding's spec names only axes of its mesh, each at most once, and has at
// most one entry per dimension.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/mesh.h"
#include "core/types.h"

namespace shardplan {

// jax.sharding.PartitionSpec.UNCONSTRAINED as an axis name; no user can write
// it, since it is not a legal name.
inline constexpr std::string_view kUnconstrained = "?";

struct PartitionSpec {
  std::vector<AxisNames> dims;  // per dimension; empty means unsharded (null)

  bool operator==(const PartitionSpec&) const = default;
  bool operator<(const PartitionSpec& other) const { return dims < other.dims; }
};

std::string axes_text(const AxisNames& axes);      // "None", "tp", "(fsdp, sp)"
std::string spec_text(const PartitionSpec& spec);  // "P((fsdp, sp), None)"
// Every axis that a dimension names, in order.
AxisNames axes_in(const PartitionSpec& spec);
// True when no dimension names an axis.
bool names_no_axis(const PartitionSpec& spec);

// How a dimension is cut. Even: each shard has ceil(d/n) rows stored, with
// padding where d is not divisible (GSPMD). Chunked: torch.chunk applied axis
// by axis, major first, so later shards may be smaller or empty.
enum class Cut : uint8_t { Even, Chunked };

struct Sharding {
  const Mesh* mesh = nullptr;
  PartitionSpec spec;
  Cut cut = Cut::Even;
};

// Product of the sizes of `axes`; axes that the mesh lacks count as 1.
int64_t shard_count(const Mesh& mesh, const AxisNames& axes);
// Product over all dimensions.
int64_t shard_count(const Mesh& mesh, const PartitionSpec& spec);

// Rows [begin, end) of one dimension, of `size` rows, held at the given mesh
// coordinates. Under Cut::Even the last shards of an indivisible dimension hold
// fewer real rows than they store.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const Slice&) const = default;
};
Slice dimension_slice(const Mesh& mesh, const AxisNames& axes, Cut cut,
                      int64_t size, const std::vector<int64_t>& coordinates);

// Index of the shard of a dimension held at the given coordinates.
int64_t shard_index(const Mesh& mesh, const AxisNames& axes,
                    const std::vector<int64_t>& coordinates);

// Stored shape of the largest shard.
Shape local_shape(const Sharding& sharding, const Shape& shape);

// Sizes of the distinct shards of a dimension, with how many of the shards have
// each size; sizes descending. Under Cut::Even always one entry.
struct ShardSize {
  int64_t rows = 0;
  int64_t count = 0;

  bool operator==(const ShardSize&) const = default;
};
std::vector<ShardSize> shard_sizes(const Mesh& mesh, const AxisNames& axes,
                                   Cut cut, int64_t size);

}  // namespace shardplan
