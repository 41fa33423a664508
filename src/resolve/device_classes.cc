// SPDX-License-Identifier: Apache-2.0
// Device classes: divides the devices at the breakpoints along each axis, and
// sums values over the classes that these form.
#include <algorithm>
#include <utility>

#include "core/views.h"
#include "resolve/device_memory.h"

namespace shardplan {
namespace {

// A run of coordinates between two breakpoints.
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

// Returns the sizes of the pieces that torch.chunk makes of `sizes` over
// `axis`.
std::set<int64_t> cut(const std::set<int64_t>& sizes, const AxisName& axis,
                      int64_t n, Breakpoints& breakpoints, bool& uneven) {
  std::set<int64_t> next;
  for (const int64_t size : sizes) {
    const int64_t step = ceil_div(size, n);
    next.insert(step);
    if (step == 0 || size % n == 0) continue;
    const int64_t full = size / step;
    const int64_t used = ceil_div(size, step);
    if (used > full) next.insert(size % step);
    if (used < n) next.insert(0);
    for (const int64_t at : {full, used}) {
      if (at >= n) continue;
      breakpoints[axis].insert(at);
      uneven = true;
    }
  }
  return next;
}

// Converts breakpoints to the sub-axes of `grid`, as grid_of describes.
Breakpoints on_grid(const Mesh& grid, const Breakpoints& breakpoints) {
  Breakpoints result;
  for (const auto& [axis, points] : breakpoints) {
    const AxisNames parts = parts_of(grid, axis);
    if (parts.size() == 1) {
      result[parts.front()].insert(points.begin(), points.end());
      continue;
    }
    for (const AxisName& part : parts) {
      for (int64_t at = 1; at < grid.size_of(part); ++at) {
        result[part].insert(at);
      }
    }
  }
  return result;
}

// Sets `on_mesh` to the coordinates of the device that is at `from` on the
// grid.
void locate(const Mesh& mesh, const Mesh& grid,
            const std::vector<int64_t>& from, std::vector<int64_t>& on_mesh) {
  if (mesh.views().empty()) {
    on_mesh = from;
    return;
  }
  int64_t device = 0;
  for (size_t i = 0; i < grid.axes().size(); ++i) {
    device += from[i] * grid.stride(i);
  }
  on_mesh = mesh.coordinates(device);
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

bool add_breakpoints(const std::optional<ExpertPlacement>& dealt,
                     Breakpoints& breakpoints) {
  if (!dealt || is_even(*dealt)) return false;
  std::set<int64_t>& points = breakpoints[dealt->axis];
  const auto at_rank = [&](int64_t rank) {
    return count_on_rank(*dealt, dealt->experts, rank);
  };
  if (dealt->rank >= 0) {
    for (const int64_t at : {dealt->rank, dealt->rank + 1}) {
      if (at > 0 && at < dealt->size) points.insert(at);
    }
    return true;
  }
  for (int64_t rank = 1; rank < dealt->size; ++rank) {
    if (at_rank(rank) != at_rank(rank - 1)) points.insert(rank);
  }
  return true;
}

int64_t held_at(const std::optional<ExpertPlacement>& dealt, const Mesh& mesh,
                int64_t count, const std::vector<int64_t>& coordinates) {
  if (!dealt) return count;
  return count_on_rank(*dealt, count, coordinates[*mesh.find(dealt->axis)]);
}

int64_t most_held(const std::optional<ExpertPlacement>& dealt, int64_t count) {
  return dealt ? max_on_rank(*dealt, count) : count;
}

std::optional<Mesh> grid_of(const Mesh& mesh, Breakpoints& breakpoints) {
  const bool in_views = std::ranges::any_of(breakpoints, [&](const auto& at) {
    return !at.second.empty() && !mesh.has({}, at.first);
  });
  if (!in_views) return mesh;
  for (const MeshView& view : mesh.views()) {
    if (std::ranges::all_of(breakpoints, [&](const auto& at) {
          return at.second.empty() || mesh.has(view.name, at.first);
        })) {
      return Mesh(view.axes);
    }
  }
  auto grid = sub_axes(mesh);
  if (grid) breakpoints = on_grid(*grid, breakpoints);
  return grid;
}

std::optional<std::vector<CoordinateClass>> coordinate_classes(
    const Mesh& mesh, const Mesh& grid, const Breakpoints& breakpoints,
    int64_t most) {
  std::vector<CoordinateClass> classes = {{}};
  for (const Axis& axis : grid.axes()) {
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
  for (CoordinateClass& entry : classes) {
    locate(mesh, grid, entry.coordinates, entry.coordinates);
  }
  return classes;
}

ClassSums::ClassSums(const Mesh& mesh, const Mesh& grid, const Breakpoints& all)
    : mesh_(mesh), grid_(grid) {
  for (const Axis& axis : grid.axes()) {
    std::vector<int64_t>& starts = starts_.emplace_back();
    for (const Run& run : runs_of(axis, all)) starts.push_back(run.first);
  }
  strides_.resize(starts_.size());
  for (size_t axis = starts_.size(); axis-- > 0;) {
    strides_[axis] = classes_;
    classes_ *= starts_[axis].size();
  }
  whole_.begin.resize(starts_.size());
  locate(mesh, grid, std::vector<int64_t>(starts_.size()), whole_.coordinates);
  for (const std::vector<int64_t>& starts : starts_) {
    whole_.end.push_back(starts.size());
  }
  whole_.devices = mesh.devices();
}

void ClassSums::each_box(const Breakpoints& of_tensor,
                         const std::function<void(const Box&)>& on_box) const {
  if (of_tensor.empty()) return on_box(whole_);
  Breakpoints converted;
  const bool same = grid_ == mesh_;
  if (!same) converted = on_grid(grid_, of_tensor);
  const Breakpoints& own = same ? of_tensor : converted;
  const size_t axes = starts_.size();
  // Per axis, the runs at which boxes begin, and the end of the last box.
  std::vector<std::vector<size_t>> cuts(axes);
  for (size_t axis = 0; axis < axes; ++axis) {
    const std::vector<int64_t>& starts = starts_[axis];
    for (const Run& run : runs_of(grid_.axes()[axis], own)) {
      const auto at = std::ranges::lower_bound(starts, run.first);
      SHARDPLAN_CHECK(at != starts.end() && *at == run.first);
      cuts[axis].push_back(static_cast<size_t>(at - starts.begin()));
    }
    cuts[axis].push_back(starts.size());
  }
  Box box{std::vector<size_t>(axes), std::vector<size_t>(axes), {}, 1};
  std::vector<int64_t> first(axes);
  std::vector<size_t> at(axes);
  while (true) {
    box.devices = 1;
    for (size_t axis = 0; axis < axes; ++axis) {
      const std::vector<int64_t>& starts = starts_[axis];
      box.begin[axis] = cuts[axis][at[axis]];
      box.end[axis] = cuts[axis][at[axis] + 1];
      first[axis] = starts[box.begin[axis]];
      const int64_t end = box.end[axis] < starts.size()
                              ? starts[box.end[axis]]
                              : grid_.axes()[axis].size;
      box.devices *= end - first[axis];
    }
    locate(mesh_, grid_, first, box.coordinates);
    on_box(box);
    size_t axis = axes;
    while (axis > 0 && at[axis - 1] + 2 == cuts[axis - 1].size()) {
      at[--axis] = 0;
    }
    if (axis == 0) return;
    ++at[axis - 1];
  }
}

void ClassSums::add(const Box& box, Int128 value,
                    std::vector<Int128>& sums) const {
  // The axes on which the box ends before the axis does; `value` is subtracted
  // again at that end.
  std::vector<size_t> ending;
  size_t first = 0;
  for (size_t axis = 0; axis < starts_.size(); ++axis) {
    first += box.begin[axis] * strides_[axis];
    if (box.end[axis] < starts_[axis].size()) ending.push_back(axis);
  }
  for (size_t corner = 0; corner < size_t{1} << ending.size(); ++corner) {
    size_t at = first;
    bool negative = false;
    for (size_t i = 0; i < ending.size(); ++i) {
      if ((corner >> i & 1U) == 0) continue;
      const size_t axis = ending[i];
      at += (box.end[axis] - box.begin[axis]) * strides_[axis];
      negative = !negative;
    }
    sums[at] += negative ? -value : value;
  }
}

void ClassSums::finish(std::vector<Int128>& sums) const {
  for (size_t axis = 0; axis < starts_.size(); ++axis) {
    const size_t stride = strides_[axis];
    const size_t runs = starts_[axis].size();
    for (size_t i = 0; runs > 1 && i < classes_; ++i) {
      if (i / stride % runs > 0) sums[i] += sums[i - stride];
    }
  }
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
