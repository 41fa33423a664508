// SPDX-License-Identifier: Apache-2.0
// Initialisers of jax.nn.initializers, and what xlstm's ModelParallelismWrapper
// does to them per shard.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "graph/graph.h"
#include "graph/random.h"

namespace shardplan {

// Names that `init` of a graph file may have: those of jax.nn.initializers.
std::vector<std::string> initialiser_names();

// float32 numbers of `shape`, row-major. Fans are counted as JAX counts them:
// the last dimension is out, the last but one is in, the others are the
// receptive field; a shape of less than two dimensions has none and is refused
// (empty) where the initialiser needs them. REQUIRES: a name of
// initialiser_names().
std::optional<std::vector<float>> initialise(const Initialiser& initialiser,
                                             Key key, const Shape& shape);

// variance_scaling(scale, mode, distribution) itself: numbers of variance
// scale / fan. Normal ones are truncated at two standard deviations where the
// distribution says so.
enum class FanMode : uint8_t { In, Out, Average };
enum class Distribution : uint8_t { TruncatedNormal, Normal, Uniform };
std::optional<std::vector<float>> variance_scaling(Key key, const Shape& shape,
                                                   double scale, FanMode mode,
                                                   Distribution distribution);

// What a wrapped module's parameters are on every device of a model axis of
// size `count`: drawn from fold_in(key, index) where `split_rngs`, else alike;
// zero everywhere but on device `mask_except` where that is given. The shards
// are stacked along a new leading axis. REQUIRES: the sizes fit memory.
struct PerShard {
  int count = 1;
  bool split_rngs = true;
  std::optional<int> mask_except;
};
std::optional<std::vector<float>> initialise_shards(
    const Initialiser& initialiser, Key key, const Shape& shard_shape,
    const PerShard& how);

}  // namespace shardplan
