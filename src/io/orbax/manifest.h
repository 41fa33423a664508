// SPDX-License-Identifier: Apache-2.0
// The shape of an array from the shape that one process wrote of it.
//
// `write_shape` is the shard's shape where every shard has one replica. Where
// it has r of them, Orbax lets them share the writing unless told otherwise:
// the first dimension of the shard that r divides is cut into r parts
// (replica_slices.py). The same `write_shape` may come of several shapes then:
// [8, 32] of 8 replicas is [64, 32], or [8, 32] where they were told otherwise;
// [6] of 8 replicas is [48], or [6], which they could not share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "core/types.h"
#include "io/spec_node.h"

namespace shardplan {

// Shards and replicas of an array on its mesh. Empty when the spec has more
// dimensions than the array or a product exceeds 63 bits.
struct ShardCounts {
  std::vector<int64_t> per_dim;
  int64_t replicas = 1;
};
std::optional<ShardCounts> shard_counts(const RecordedSharding& sharding,
                                        size_t rank);

// Every shape that the array may have, the likeliest first; one where there is
// a single replica. Empty when all exceed 63 bits.
std::vector<Shape> possible_shapes(const Shape& write_shape,
                                   const ShardCounts& counts);

// Whether several of the shapes are written so where replicas share the
// writing: then nothing but other arrays tells which it is.
bool is_open(const Shape& write_shape, const ShardCounts& counts);
// What is written so where replicas share the writing, of possible_shapes().
// REQUIRES: is_open().
std::vector<Shape> shared_shapes(const Shape& write_shape,
                                 const ShardCounts& counts);

// The one shape whose sizes have more support than those of every other; empty
// where two have as much.
std::optional<Shape> best_supported(
    const std::vector<Shape>& shapes,
    const std::function<int(int64_t size)>& support);

// The first of the shapes whose sizes other arrays have too, else the first.
// REQUIRES: there is one.
const Shape& likeliest(const std::vector<Shape>& shapes,
                       const std::set<int64_t>& known_sizes);

// Shape and dtype from the text of a `.zarray` or a `zarr.json`; empty when it
// is none, or its dtype is none of ours.
std::optional<TensorType> zarr_type(const SourcePtr& file);

}  // namespace shardplan
