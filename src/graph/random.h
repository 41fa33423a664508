// SPDX-License-Identifier: Apache-2.0
// JAX's random numbers, bit for bit: threefry2x32 (Salmon et al., "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC 2011) with the partitionable counters
// that JAX uses since 0.5.0 (jax_threefry_partitionable).
//
// Bits are exact. Floats made from them may differ from XLA's by a few units in
// the last place where log or erf_inv are involved (docs/validation.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace shardplan {

using Key = std::array<uint32_t, 2>;

Key random_key(int64_t seed);                // jax.random.PRNGKey
std::vector<Key> split(Key key, int count);  // jax.random.split
Key fold_in(Key key, uint32_t data);         // jax.random.fold_in

// As many numbers as asked for, in row-major order of the array's shape.
std::vector<uint32_t> random_bits(Key key, int64_t count);
std::vector<float> random_uniform(Key key, int64_t count, float low = 0,
                                  float high = 1);
std::vector<float> random_normal(Key key, int64_t count);
std::vector<float> random_truncated_normal(Key key, int64_t count, float low,
                                           float high);

}  // namespace shardplan
