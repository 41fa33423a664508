// SPDX-License-Identifier: Apache-2.0
#include "resolve/auto_spec.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace shardplan {
namespace {

std::vector<AxisNames> axes_by_size(const Mesh& mesh) {
  std::vector<Axis> axes = mesh.axes();
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return a.size > b.size;
  });
  std::vector<AxisNames> choices;
  for (const Axis& axis : axes) choices.push_back({axis.name});
  return choices;
}

}  // namespace

PartitionSpec auto_spec(const Shape& shape, const Mesh& mesh,
                        const AutoSpecOptions& options) {
  const int64_t least =
      options.min_size == 0 ? mesh.devices() : options.min_size;
  // Beyond 63 bits nothing is too small.
  if (element_count(shape).value_or(INT64_MAX) < least) return {};
  std::vector<AxisNames> left(options.choices.begin(), options.choices.end());
  if (left.empty()) left = axes_by_size(mesh);

  std::vector<size_t> dims(shape.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::stable_sort(dims.begin(), dims.end(), [&](size_t a, size_t b) {
    return options.smallest_first ? shape[a] < shape[b] : shape[a] > shape[b];
  });
  PartitionSpec spec;
  spec.dims.resize(shape.size());
  for (const size_t dim : dims) {
    const auto fits =
        std::find_if(left.begin(), left.end(), [&](const AxisNames& axes) {
          return shape[dim] % shard_count(mesh, axes) == 0;
        });
    if (fits == left.end()) continue;
    spec.dims[dim] = *fits;
    // An axis shards one dimension, so choices that contain it are gone, too.
    const AxisNames taken = *fits;
    std::erase_if(left, [&](const AxisNames& axes) {
      return std::find_first_of(axes.begin(), axes.end(), taken.begin(),
                                taken.end()) != axes.end();
    });
  }
  return spec;
}

}  // namespace shardplan
