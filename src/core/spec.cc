// SPDX-License-Identifier: Apache-2.0
#include "core/spec.h"

#include <algorithm>
#include <map>

#include "base/checked.h"

namespace shardplan {
namespace {

// Returns the coordinate on an axis; 0 for an axis that the mesh lacks.
int64_t coordinate(const Mesh& mesh, const AxisName& axis,
                   const std::vector<int64_t>& coordinates) {
  const std::optional<size_t> index = mesh.find(axis);
  return index ? coordinates[*index] : 0;
}

// Returns piece `which` of torch.chunk(size rows, n): pieces have ceil(size/n)
// rows, the last one fewer, and any further ones none.
Slice chunk(Slice whole, int64_t n, int64_t which) {
  const int64_t size = whole.end - whole.begin;
  const int64_t step = ceil_div(size, n);
  const int64_t begin = step == 0 ? 0 : std::min(size / step + 1, which) * step;
  const int64_t first = std::min(size, begin);
  return {whole.begin + first,
          whole.begin + first + std::min(step, size - first)};
}

}  // namespace

std::string axes_text(const AxisNames& axes) {
  if (axes.empty()) return "None";
  if (axes.size() == 1) return axes.front();
  std::string text = "(";
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) text += ", ";
    text += axes[i];
  }
  return text + ")";
}

std::string spec_text(const PartitionSpec& spec) {
  std::string text = "P(";
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += axes_text(spec.dims[i]);
  }
  return text + ")";
}

AxisNames axes_in(const PartitionSpec& spec) {
  AxisNames all;
  for (const AxisNames& axes : spec.dims) {
    all.insert(all.end(), axes.begin(), axes.end());
  }
  return all;
}

bool names_no_axis(const PartitionSpec& spec) {
  return std::ranges::all_of(spec.dims, &AxisNames::empty);
}

int64_t shard_count(const Mesh& mesh, const AxisNames& axes) {
  int64_t count = 1;
  for (const AxisName& axis : axes) {
    const std::optional<int64_t> next = checked_mul(count, mesh.size_of(axis));
    // Only a repeated axis can exceed the device count. The product is then
    // larger than any dimension.
    if (!next) return INT64_MAX;
    count = *next;
  }
  return count;
}

int64_t shard_count(const Mesh& mesh, const PartitionSpec& spec) {
  int64_t count = 1;
  for (const AxisNames& axes : spec.dims) count *= shard_count(mesh, axes);
  return count;
}

int64_t shard_index(const Mesh& mesh, const AxisNames& axes,
                    const std::vector<int64_t>& coordinates) {
  int64_t index = 0;
  for (const AxisName& axis : axes) {
    index = index * mesh.size_of(axis) + coordinate(mesh, axis, coordinates);
  }
  return index;
}

Slice dimension_slice(const Mesh& mesh, const AxisNames& axes, Cut cut,
                      int64_t size, const std::vector<int64_t>& coordinates) {
  Slice slice{0, size};
  if (cut == Cut::Even) {
    return chunk(slice, shard_count(mesh, axes),
                 shard_index(mesh, axes, coordinates));
  }
  for (const AxisName& axis : axes) {
    slice =
        chunk(slice, mesh.size_of(axis), coordinate(mesh, axis, coordinates));
  }
  return slice;
}

Shape local_shape(const Sharding& sharding, const Shape& shape) {
  Shape local = shape;
  const std::vector<AxisNames>& dims = sharding.spec.dims;
  SHARDPLAN_CHECK(dims.size() <= shape.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    // Under Chunked the first piece of each cut is the largest, so the nested
    // ceilings are the size of the shard at coordinate 0.
    if (sharding.cut == Cut::Even) {
      local[i] = ceil_div(local[i], shard_count(*sharding.mesh, dims[i]));
    } else {
      for (const AxisName& axis : dims[i]) {
        local[i] = ceil_div(local[i], sharding.mesh->size_of(axis));
      }
    }
  }
  return local;
}

std::vector<ShardSize> shard_sizes(const Mesh& mesh, const AxisNames& axes,
                                   Cut cut, int64_t size) {
  const int64_t count = shard_count(mesh, axes);
  if (cut == Cut::Even) return {{ceil_div(size, count), count}};
  // The number of pieces of each size, refined axis by axis. Each cut turns one
  // size into at most three.
  std::map<int64_t, int64_t, std::greater<>> pieces = {{size, 1}};
  for (const AxisName& axis : axes) {
    const int64_t n = mesh.size_of(axis);
    std::map<int64_t, int64_t, std::greater<>> next;
    for (const auto& [rows, many] : pieces) {
      const int64_t step = ceil_div(rows, n);
      const int64_t full = step == 0 ? 0 : rows / step;
      if (full > 0) next[step] += many * full;
      int64_t used = full;
      if (step > 0 && rows % step != 0) {
        next[rows % step] += many;
        ++used;
      }
      if (used < n) next[0] += many * (n - used);
    }
    pieces = std::move(next);
  }
  std::vector<ShardSize> sizes;
  sizes.reserve(pieces.size());
  for (const auto& [rows, many] : pieces) sizes.push_back({rows, many});
  return sizes;
}

}  // namespace shardplan
