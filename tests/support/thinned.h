// SPDX-License-Identifier: Apache-2.0
// Long tables under a sanitizer.
#pragma once

#include <cstddef>

#include "base/allocation.h"

namespace shardplan::testing {

// Under a sanitizer a test takes ten to twenty times as long, and judges what
// code does with memory and threads rather than its answers. There it reads
// every nth row of a long table; all builds whose allocations are counted read
// every row.
struct Thinned {
  size_t nth = 1;
  size_t rows = 0;

  // Called once for each row.
  bool skips() { return !kCountsAllocations && ++rows % nth != 0; }
  // How many of `count` rows a test may insist on.
  size_t of(size_t count) const {
    return kCountsAllocations ? count : count / (2 * nth);
  }
};

}  // namespace shardplan::testing
