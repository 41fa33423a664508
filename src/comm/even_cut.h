// SPDX-License-Identifier: Apache-2.0
// EvenCut: a total in parts of nearly equal size, as payloads are cut into
// chunks.
//
// Part i is [total i / parts, total (i + 1) / parts), both rounded down: 10 in
// 4 parts is 2, 3, 2, 3. The unit is the caller's: bytes, or elements where a
// cut may not go through one.
#pragma once

#include <cstdint>

namespace shardplan {

// The remainder in [0, count), also of negative numbers. REQUIRES: count > 0.
int64_t wrap(int64_t index, int64_t count);

struct EvenCut {
  int64_t total = 0;  // >= 0
  int64_t parts = 1;  // >= 1

  // Where a part begins. REQUIRES: 0 <= part <= parts.
  int64_t begin(int64_t part) const;
  // The size of one part, counted modulo `parts`.
  int64_t size(int64_t part) const;
  // The sizes of `count` parts from `first` on, going round, together.
  // REQUIRES: 0 <= count <= parts.
  int64_t run(int64_t first, int64_t count) const;
};

// The product, or the largest int64_t when that is less. REQUIRES: neither is
// negative.
int64_t saturated_product(int64_t a, int64_t b);

}  // namespace shardplan
