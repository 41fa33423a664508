// SPDX-License-Identifier: Apache-2.0
// PartitionSpec: the mesh axes that shard each dimension, by name only.
// Sharding: a spec bound to a mesh, which determines shard sizes and positions.
//
// A dimension with axes (a1, .., ak) is divided into |a1| x .. x |ak| shards;
// a1 is the most significant digit of the shard's index, so ("dp","tp") and
// ("tp","dp") place different slices on a device. The tensor is replicated over
// the axes that a spec does not name. `[]` and `[null]` are different specs.
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

// jax.sharding.PartitionSpec.UNCONSTRAINED as an axis name. It is not a legal
// name, so no user can write it.
inline constexpr std::string_view kUnconstrained = "?";

struct PartitionSpec {
  std::vector<AxisNames> dims;  // per dimension; empty means unsharded (null)

  bool operator==(const PartitionSpec&) const = default;
  bool operator<(const PartitionSpec& other) const { return dims < other.dims; }
};

std::string axes_text(const AxisNames& axes);      // "None", "tp", "(fsdp, sp)"
std::string spec_text(const PartitionSpec& spec);  // "P((fsdp, sp), None)"
// Returns every axis that a dimension names, in order.
AxisNames axes_in(const PartitionSpec& spec);
// Returns whether no dimension names an axis.
bool names_no_axis(const PartitionSpec& spec);

// How a dimension is divided. Even: each shard stores ceil(d/n) rows, with
// padding if n does not divide d (GSPMD). Chunked: torch.chunk is applied axis
// by axis, major first, so later shards may be smaller or empty.
enum class Cut : uint8_t { Even, Chunked };

struct Sharding {
  const Mesh* mesh = nullptr;
  PartitionSpec spec;
  Cut cut = Cut::Even;
};

// Returns the product of the sizes of `axes`; axes that the mesh lacks count as
// 1.
int64_t shard_count(const Mesh& mesh, const AxisNames& axes);
// Returns the product over all dimensions.
int64_t shard_count(const Mesh& mesh, const PartitionSpec& spec);

// The rows [begin, end) of a dimension of `size` rows that the device at these
// coordinates holds. Under Cut::Even the last shards of an indivisible
// dimension have fewer real rows than they store.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const Slice&) const = default;
};
Slice dimension_slice(const Mesh& mesh, const AxisNames& axes, Cut cut,
                      int64_t size, const std::vector<int64_t>& coordinates);

// Returns the index of the shard of a dimension at these coordinates.
int64_t shard_index(const Mesh& mesh, const AxisNames& axes,
                    const std::vector<int64_t>& coordinates);

// Returns the stored shape of the largest shard.
Shape local_shape(const Sharding& sharding, const Shape& shape);

// The distinct shard sizes of a dimension, descending, and how many shards have
// each. Under Cut::Even there is always one entry.
struct ShardSize {
  int64_t rows = 0;
  int64_t count = 0;

  bool operator==(const ShardSize&) const = default;
};
std::vector<ShardSize> shard_sizes(const Mesh& mesh, const AxisNames& axes,
                                   Cut cut, int64_t size);

}  // namespace shardplan
