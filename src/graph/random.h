// SPDX-License-Identifier: Apache-2.0
// JAX's random numbers, bit for bit: threefry2x32 (Salmon et al., "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC 2011) with the partitionable counters
// that JAX uses since 0.5.0 (jax_threefry_partitionable).
//
// Bits and uniform floats are exactly those of XLA on a CPU with FMA; where
// erf_inv is involved, floats differ by a few units in the last place, and most
// not at all (docs/validation-random.md).
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

// jax.random.PRNGKey: of the seed's low 32 bits alone, since JAX turns it into
// 32 bits first, unless jax_enable_x64 is set.
RandomKey random_key(int64_t seed);
RandomKey fold_in(RandomKey key, uint32_t data);  // jax.random.fold_in

// As many numbers as requested, in row-major order of the array's shape; the
// same for any number of threads.
std::vector<uint32_t> random_bits(RandomKey key, int64_t count,
                                  int threads = 1);
std::vector<float> random_uniform(RandomKey key, int64_t count, float low = 0,
                                  float high = 1, int threads = 1);
std::vector<float> random_normal(RandomKey key, int64_t count, int threads = 1);
// Above `low` and below `high`.
std::vector<float> random_truncated_normal(RandomKey key, int64_t count,
                                           float low, float high,
                                           int threads = 1);

// Initialisers of jax.nn.initializers, and what xlstm's ModelParallelismWrapper
// does to them per shard.

// Names that `init` of a graph file may have: those of jax.nn.initializers.
std::vector<std::string> initialiser_names();

// float32 numbers of `shape`, row-major. Fans are counted as JAX counts them:
// the last dimension is out, the last but one is in, the others are the
// receptive field; a shape of less than two dimensions has none and is refused
// (empty) where the initialiser needs them. REQUIRES: a name of
// initialiser_names().
std::optional<std::vector<float>> initialise(const Initialiser& initialiser,
                                             RandomKey key, const Shape& shape,
                                             int threads = 1);

// variance_scaling(scale, mode, distribution) itself: numbers of variance
// scale / fan. Normal ones are truncated at two standard deviations where the
// distribution says so.
enum class FanMode : uint8_t { In, Out, Average };
enum class Distribution : uint8_t { TruncatedNormal, Normal, Uniform };
std::optional<std::vector<float>> variance_scaling(RandomKey key,
                                                   const Shape& shape,
                                                   double scale, FanMode mode,
                                                   Distribution distribution,
                                                   int threads = 1);

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
    const Initialiser& initialiser, RandomKey key, const Shape& shard_shape,
    const PerShard& how, int threads = 1);

}  // namespace shardplan
