// SPDX-License-Identifier: Apache-2.0
// Derives the shape of an array from the shape that one process wrote of it.
//
// `write_shape` is the shard's shape if every shard has one replica. If a shard
// has r replicas, Orbax by default lets them share the writing: the first
// dimension of the shard that r divides is split into r parts
// (replica_slices.py). Several shapes may then lead to the same `write_shape`.
// For 8 replicas, [8, 32] comes from [64, 32], or from [8, 32] if they did not
// share, and [6] comes from [48], or from [6], which they could not share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "core/types.h"
#include "io/spec_node.h"

namespace shardplan {

// The shards and replicas of an array on its mesh. shard_counts() returns
// nullopt when the spec has more dimensions than the array or a product exceeds
// 63 bits.
struct ShardCounts {
  std::vector<int64_t> per_dim;
  int64_t replicas = 1;
};
std::optional<ShardCounts> shard_counts(const RecordedSharding& sharding,
                                        size_t rank);

// Returns every shape that the array may have, the likeliest first; only one if
// there is a single replica. Empty if all exceed 63 bits.
std::vector<Shape> possible_shapes(const Shape& write_shape,
                                   const ShardCounts& counts);

// Returns whether several of the shapes have the same `write_shape` if replicas
// share the writing, so that only other arrays can show which one is right.
bool is_open(const Shape& write_shape, const ShardCounts& counts);
// Returns those of possible_shapes() that have this `write_shape` if replicas
// share the writing. REQUIRES: is_open().
std::vector<Shape> shared_shapes(const Shape& write_shape,
                                 const ShardCounts& counts);

// Returns the one shape whose sizes have more support than those of every
// other; nullopt if two have the same support.
std::optional<Shape> best_supported(
    const std::vector<Shape>& shapes,
    const std::function<int(int64_t size)>& support);

// Returns the first of the shapes whose sizes all occur in other arrays, else
// the first. REQUIRES: `shapes` is not empty.
const Shape& likeliest(const std::vector<Shape>& shapes,
                       const std::set<int64_t>& known_sizes);

// Reads shape and dtype from a `.zarray` or a `zarr.json`; nullopt if the text
// is neither, or the dtype is not supported.
std::optional<TensorType> zarr_type(const SourcePtr& file);

}  // namespace shardplan
