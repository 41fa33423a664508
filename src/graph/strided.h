// SPDX-License-Identifier: Apache-2.0
// Walking over the elements of several tensors of one shape at once.
//
// Dimensions of size 1 are dropped, and adjacent ones are joined wherever the
// strides of every tensor allow it, so that the innermost loop is as long as
// can be: one row for row-major tensors. Rows come in row-major order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "core/types.h"

namespace shardplan {

using Strides = std::vector<int64_t>;  // elements; one per dimension

// The joined dimensions, at least one: their sizes, and for every tensor their
// strides. One of size 0 where there are no elements.
struct Walk {
  Shape sizes;
  std::vector<Strides> strides;
};
Walk joined_dims(const Shape& shape, std::span<const Strides> strides);

// The stride of dimensions [begin, end) taken as one; empty where they do not
// lie so. 0 for a single element.
std::optional<int64_t> joined_stride(const Shape& shape, const Strides& strides,
                                     size_t begin, size_t end);

// Calls row(count, offsets, steps) for every row of a walk whose first elements
// have these offsets.
template <size_t N, typename Row>
void for_each_row_of(const Walk& walk, std::array<int64_t, N> offsets,
                     const Row& row) {
  std::array<int64_t, N> steps{};
  for (size_t t = 0; t < N; ++t) steps[t] = walk.strides[t].back();
  for (const int64_t size : walk.sizes) {
    if (size == 0) return;
  }
  const size_t outer = walk.sizes.size() - 1;
  std::vector<int64_t> index(outer, 0);
  while (true) {
    row(walk.sizes.back(), offsets, steps);
    size_t dim = outer;
    while (dim > 0) {
      --dim;
      const bool wraps = ++index[dim] == walk.sizes[dim];
      const int64_t moved = wraps ? 1 - index[dim] : 1;
      for (size_t t = 0; t < N; ++t) offsets[t] += moved * walk.strides[t][dim];
      if (!wraps) break;
      index[dim] = 0;
      if (dim == 0) return;
    }
    if (outer == 0) return;
  }
}

// Calls row(count, offsets, steps) for every row: its elements, and for every
// tensor the first element's offset and the distance of neighbours.
template <size_t N, typename Row>
void for_each_row(const Shape& shape, const std::array<Strides, N>& strides,
                  const Row& row) {
  for_each_row_of<N>(joined_dims(shape, strides), {}, row);
}

// The same on several threads where it pays, in any order; a row may come in
// pieces. `work` is what one element costs, in elements read or written.
// REQUIRES: what is made of an element depends on no other row's.
template <size_t N, typename Row>
void for_each_row(const Shape& shape, const std::array<Strides, N>& strides,
                  int threads, int64_t work, const Row& row) {
  constexpr int64_t kWorthThreads = int64_t{1} << 16U;
  constexpr int64_t kPieces = 32;
  const Walk walk = joined_dims(shape, strides);
  int64_t total = std::max<int64_t>(1, work);
  for (const int64_t size : walk.sizes) total *= size;
  if (threads <= 1 || total < kWorthThreads) {
    for_each_row_of<N>(walk, {}, row);
    return;
  }
  const auto largest = std::max_element(walk.sizes.begin(), walk.sizes.end());
  const auto dim = static_cast<size_t>(largest - walk.sizes.begin());
  const int64_t pieces = std::min(kPieces, *largest);
  parallel_for(pieces, threads, [&](int64_t i) {
    const int64_t begin = *largest * i / pieces;
    Walk part = walk;
    part.sizes[dim] = *largest * (i + 1) / pieces - begin;
    std::array<int64_t, N> offsets{};
    for (size_t t = 0; t < N; ++t) offsets[t] = begin * walk.strides[t][dim];
    for_each_row_of<N>(part, offsets, row);
  });
}

}  // namespace shardplan
