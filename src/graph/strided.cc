// SPDX-License-Identifier: Apache-2.0
#include "graph/strided.h"

#include <algorithm>

namespace shardplan {

Walk joined_dims(const Shape& shape, std::span<const Strides> strides) {
  Walk walk;
  walk.strides.resize(strides.size());
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    walk.sizes = {0};
    walk.strides.assign(strides.size(), {0});
    return walk;
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    bool joins = !walk.sizes.empty();
    for (size_t t = 0; t < strides.size() && joins; ++t) {
      joins = walk.strides[t].back() == strides[t][dim] * shape[dim];
    }
    if (joins) {
      walk.sizes.back() *= shape[dim];
      for (size_t t = 0; t < strides.size(); ++t) {
        walk.strides[t].back() = strides[t][dim];
      }
      continue;
    }
    walk.sizes.push_back(shape[dim]);
    for (size_t t = 0; t < strides.size(); ++t) {
      walk.strides[t].push_back(strides[t][dim]);
    }
  }
  if (walk.sizes.empty()) {
    walk.sizes.push_back(1);
    for (Strides& of_tensor : walk.strides) of_tensor.push_back(0);
  }
  return walk;
}

std::optional<int64_t> joined_stride(const Shape& shape, const Strides& strides,
                                     size_t begin, size_t end) {
  const auto at = [](size_t i) { return static_cast<std::ptrdiff_t>(i); };
  const Strides part(strides.begin() + at(begin), strides.begin() + at(end));
  const Walk walk =
      joined_dims(Shape(shape.begin() + at(begin), shape.begin() + at(end)),
                  std::span(&part, 1));
  if (walk.sizes.size() > 1) return std::nullopt;
  return walk.strides[0][0];
}

}  // namespace shardplan
