// SPDX-License-Identifier: Apache-2.0
// Indices held as numbers of the run's element type.
#pragma once

#include <cstdint>

namespace shardplan {

// The index that a number is; -1 where it is no integer in [0, count).
template <typename T>
int64_t index_of(T number, int64_t count) {
  if (!(number >= 0 && number < static_cast<T>(count))) return -1;
  const auto index = static_cast<int64_t>(number);
  return static_cast<T>(index) == number ? index : -1;
}

}  // namespace shardplan
