// SPDX-License-Identifier: Apache-2.0
#include "resolve/device_classes.h"

#include <utility>

#include "base/checked.h"

namespace shardplan {
namespace {

// Runs of coordinates between breakpoints.
struct Run {
  int64_t first = 0;
  int64_t length = 1;
};

std::vector<Run> runs_of(const Axis& axis, const Breakpoints& breakpoints) {
  std::vector<Run> runs;
  int64_t begin = 0;
  if (const auto found = breakpoints.find(axis.name);
      found != breakpoints.end()) {
    for (const int64_t at : found->second) {
      if (at > begin) runs.push_back({begin, at - begin});
      begin = at;
    }
  }
  runs.push_back({begin, axis.size - begin});
  return runs;
}

// Sizes of the pieces that torch.chunk makes of `sizes` over `axis`.
std::set<int64_t> cut(const std::set<int64_t>& sizes, const AxisName& axis,
                      int64_t n, Breakpoints& breakpoints, bool& uneven) {
  std::set<int64_t> next;
  for (const int64_t size : sizes) {
    const int64_t step = ceil_div(size, n);
    next.insert(step);
    if (step == 0 || size % n == 0) continue;
    const int64_t full = size / step;
    const bool partial = size % step != 0;
    if (partial) next.insert(size % step);
    if (full + (partial ? 1 : 0) < n) next.insert(0);
    for (const int64_t at : {full, full + (partial ? 1 : 0)}) {
      if (at >= n) continue;
      breakpoints[axis].insert(at);
      uneven = true;
    }
  }
  return next;
}

}  // namespace

bool add_breakpoints(const Mesh& mesh, const Shape& shape,
                     const PartitionSpec& spec, Breakpoints& breakpoints) {
  bool uneven = false;
  for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
    std::set<int64_t> sizes = {shape[dim]};
    for (const AxisName& axis : spec.dims[dim]) {
      sizes = cut(sizes, axis, mesh.size_of(axis), breakpoints, uneven);
    }
  }
  return uneven;
}

std::optional<std::vector<CoordinateClass>> coordinate_classes(
    const Mesh& mesh, const Breakpoints& breakpoints, int64_t most) {
  std::vector<CoordinateClass> classes = {{}};
  for (const Axis& axis : mesh.axes()) {
    const std::vector<Run> runs = runs_of(axis, breakpoints);
    if (static_cast<int64_t>(classes.size() * runs.size()) > most) {
      return std::nullopt;
    }
    std::vector<CoordinateClass> next;
    next.reserve(classes.size() * runs.size());
    for (const CoordinateClass& before : classes) {
      for (const Run& run : runs) {
        CoordinateClass entry = before;
        entry.coordinates.push_back(run.first);
        entry.devices *= run.length;
        next.push_back(std::move(entry));
      }
    }
    classes = std::move(next);
  }
  return classes;
}

int64_t chunk_bytes(const Mesh& mesh, const TensorType& type,
                    const PartitionSpec& spec,
                    const std::vector<int64_t>& coordinates) {
  TensorType local = type;
  for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
    const Slice slice = dimension_slice(mesh, spec.dims[dim], Cut::Chunked,
                                        local.shape[dim], coordinates);
    local.shape[dim] = slice.end - slice.begin;
  }
  return local.bytes();
}

}  // namespace shardplan
