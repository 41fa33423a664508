// SPDX-License-Identifier: Apache-2.0
// Random: JAX's random numbers, bit for bit. They come from threefry2x32
// (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011) with
// the partitionable counters that JAX uses since 0.5.0
// (jax_threefry_partitionable).
//
// Bits and uniform floats are exactly those of XLA on a CPU with FMA. Floats
// that involve erf_inv differ by a few units in the last place, and most do not
// differ at all (docs/validation-random.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "graph/graph.h"

namespace shardplan {

using RandomKey = std::array<uint32_t, 2>;

// Returns the key of jax.random.PRNGKey. It depends only on the seed's low 32
// bits, since JAX converts the seed to 32 bits unless jax_enable_x64 is set.
RandomKey random_key(int64_t seed);
RandomKey fold_in(RandomKey key, uint32_t data);  // jax.random.fold_in

// Each returns `count` numbers in row-major order of the array's shape, the
// same for any number of threads.
std::vector<uint32_t> random_bits(RandomKey key, int64_t count,
                                  int threads = 1);
std::vector<float> random_uniform(RandomKey key, int64_t count, float low = 0,
                                  float high = 1, int threads = 1);
std::vector<float> random_normal(RandomKey key, int64_t count, int threads = 1);
// Returns numbers above `low` and below `high`.
std::vector<float> random_truncated_normal(RandomKey key, int64_t count,
                                           float low, float high,
                                           int threads = 1);

// Initialisers of jax.nn.initializers, and how xlstm's ModelParallelismWrapper
// applies them per shard.

// Returns the names that `init` of a graph file may have: those of
// jax.nn.initializers.
std::vector<std::string> initialiser_names();

// Returns float32 numbers of `shape`, row-major. Fans are counted as in JAX:
// the last dimension is out, the second to last is in, and the others are the
// receptive field. A shape with fewer than two dimensions has no fans, so the
// result is nullopt if the initialiser needs them. REQUIRES: the name is one of
// initialiser_names().
std::optional<std::vector<float>> initialise(const Initialiser& initialiser,
                                             RandomKey key, const Shape& shape,
                                             int threads = 1);

// Computes variance_scaling(scale, mode, distribution) itself: numbers of
// variance scale / fan. TruncatedNormal cuts at two standard deviations.
enum class FanMode : uint8_t { In, Out, Average };
enum class Distribution : uint8_t { TruncatedNormal, Normal, Uniform };
std::optional<std::vector<float>> variance_scaling(RandomKey key,
                                                   const Shape& shape,
                                                   double scale, FanMode mode,
                                                   Distribution distribution,
                                                   int threads = 1);

// How the parameters of a wrapped module are drawn on a model axis of `count`
// devices: each device draws from fold_in(key, index) if `split_rngs`, else all
// draw the same. If `mask_except` is set, all devices but that one have zeros.
// The shards are stacked along a new leading axis. REQUIRES: the sizes fit
// memory.
struct PerShard {
  int count = 1;
  bool split_rngs = true;
  std::optional<int> mask_except;
};
std::optional<std::vector<float>> initialise_shards(
    const Initialiser& initialiser, RandomKey key, const Shape& shard_shape,
    const PerShard& how, int threads = 1);

}  // namespace shardplan
