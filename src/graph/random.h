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
#include <vector>

namespace shardplan {

using Key = std::array<uint32_t, 2>;

// jax.random.PRNGKey: of the seed's low 32 bits alone, since JAX turns it into
// 32 bits first, unless jax_enable_x64 is set.
Key random_key(int64_t seed);
std::vector<Key> split(Key key, int count);  // jax.random.split
Key fold_in(Key key, uint32_t data);         // jax.random.fold_in

// As many numbers as asked for, in row-major order of the array's shape.
std::vector<uint32_t> random_bits(Key key, int64_t count);
std::vector<float> random_uniform(Key key, int64_t count, float low = 0,
                                  float high = 1);
std::vector<float> random_normal(Key key, int64_t count);
// Above `low` and below `high`.
std::vector<float> random_truncated_normal(Key key, int64_t count, float low,
                                           float high);

}  // namespace shardplan
