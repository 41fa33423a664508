// SPDX-License-Identifier: Apache-2.0
// Finds device groups, the axes of factors, and the cheapest conversions.
#include "spmd/layout.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/views.h"
#include "graph/elementwise.h"

namespace shardplan {
namespace {

// Returns what distinguishes the data of two devices: the shard of every
// dimension, and the part of a sum.
std::vector<int64_t> data_key(const Mesh& mesh, const Layout& layout,
                              int64_t device) {
  std::vector<int64_t> key = shard_indices(mesh, layout, device);
  key.push_back(shard_index(mesh, layout.partial, mesh.coordinates(device)));
  return key;
}

// Assigns the axes of one dimension to its factors.
void distribute(const Mesh& mesh, const ShardingRule& rule,
                const DimFactors& dim, const AxisNames& axes,
                FactorAxes& result) {
  if (dim.empty()) return;
  size_t at = 0;
  int64_t left = nth(rule.factors, dim[0]).size;
  for (const AxisName& axis : axes) {
    const int64_t size = mesh.size_of(axis);
    while (left == 1 && at + 1 < dim.size()) {
      left = nth(rule.factors, dim[++at]).size;
    }
    if (nth(rule.factors, dim[at]).kind == FactorKind::Whole ||
        left % size != 0) {
      return;
    }
    left /= size;
    nth(result, dim[at]).push_back(axis);
  }
}

// Dijkstra's algorithm over layouts. There are few layouts, since there are few
// axes and dimensions, and since moves add only axes of the target to a
// dimension.

struct Cost {
  double bytes = 0;  // that a device sends
  int collectives = 0;
  int slices = 0;

  auto operator<=>(const Cost&) const = default;
};

struct Move {
  ReshardStep step;
  Cost cost;
};

struct Moves {
  const Mesh& mesh;
  const Shape& shape;
  const Layout& to;
  std::vector<Move> all = {};

  std::vector<Move> from(const Layout& at) {
    all.clear();
    settle(at);
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      const auto d = static_cast<int>(dim);
      const AxisNames& axes = at.spec.dims[dim];
      for (size_t keep = 0; keep < axes.size(); ++keep) {
        const AxisNames tail(axes.data() + keep, axes.data() + axes.size());
        Layout after = at;
        after.spec.dims[dim].resize(keep);
        const double n = ranks(tail);
        add(CollectiveKind::AllGather, tail, d, d, after,
            bytes(after) * (n - 1) / n);
        exchange(at, dim, tail, after);
      }
      cut(at, dim);
    }
    permute(at);
    return std::move(all);
  }

  double ranks(const AxisNames& axes) const {
    return static_cast<double>(shard_count(mesh, axes));
  }
  double bytes(const Layout& layout) const {
    auto total = static_cast<double>(storage_bytes(Storage::F32));
    for (const int64_t size : local_shape(mesh, layout, shape)) {
      total *= static_cast<double>(size);
    }
    return total;
  }
  bool fits(const Layout& layout) const { return is_even(mesh, layout, shape); }
  void add(CollectiveKind kind, const AxisNames& axes, int dim, int grown,
           const Layout& after, double cost) {
    all.push_back({{false, kind, axes, dim, grown, after}, {cost, 1, 0}});
  }

  // Returns the axes that the target has on a dimension and this layout has
  // not. They may be added in any order: a permute reorders them.
  AxisNames missing(const Layout& at, size_t dim) const {
    return without(to.spec.dims[dim], at.spec.dims[dim]);
  }
  static AxisNames without(AxisNames axes, const AxisNames& others) {
    erase_if(axes,
             [&](const AxisName& axis) { return contains(others, axis); });
    return axes;
  }

  // Calls visit(axes) for every contiguous run of `axes`.
  template <typename Visit>
  static void each_run(const AxisNames& axes, const Visit& visit) {
    for (size_t begin = 0; begin < axes.size(); ++begin) {
      for (size_t end = begin + 1; end <= axes.size(); ++end) {
        visit(AxisNames(axes.data() + begin, axes.data() + end));
      }
    }
  }

  static Layout with(Layout layout, size_t dim, const AxisNames& axes) {
    AxisNames& mine = layout.spec.dims[dim];
    mine.insert(mine.end(), axes.begin(), axes.end());
    return layout;
  }

  // Adds unused axes of the target: every device keeps its part.
  void cut(const Layout& at, size_t dim) {
    const AxisNames unused = without(missing(at, dim), axes_in_use(at));
    each_run(unused, [&](const AxisNames& axes) {
      const Layout after = with(at, dim, axes);
      if (!fits(after)) return;
      all.push_back({{true, CollectiveKind::AllGather, axes,
                      static_cast<int>(dim), 0, after},
                     {.slices = 1}});
    });
  }

  // Moves the minor axes of `dim` to the end of another dimension.
  void exchange(const Layout& at, size_t dim, const AxisNames& tail,
                const Layout& shortened) {
    for (size_t other = 0; other < shape.size(); ++other) {
      if (other == dim) continue;
      const Layout after = with(shortened, other, tail);
      if (!contains_all(missing(at, other), tail) || !fits(after)) continue;
      const double n = ranks(tail);
      add(CollectiveKind::AllToAll, tail, static_cast<int>(other),
          static_cast<int>(dim), after, bytes(at) * (n - 1) / n);
    }
  }

  // Adds up partial sums that the target does not have.
  void settle(const Layout& at) {
    const AxisNames due = without(at.partial, to.partial);
    for (unsigned subset = 1; subset < (1U << due.size()); ++subset) {
      AxisNames axes;
      Layout after = at;
      for (size_t i = 0; i < due.size(); ++i) {
        if ((subset >> i & 1U) == 0) continue;
        axes.push_back(due[i]);
        erase(after.partial, due[i]);
      }
      const double n = ranks(axes);
      add(CollectiveKind::AllReduce, axes, 0, 0, after,
          2 * bytes(at) * (n - 1) / n);
    }
    for (size_t dim = 0; dim < shape.size(); ++dim) scatter(at, dim, due);
  }

  void scatter(const Layout& at, size_t dim, const AxisNames& due) {
    AxisNames possible = missing(at, dim);
    erase_if(possible,
             [&](const AxisName& axis) { return !contains(due, axis); });
    each_run(possible, [&](const AxisNames& axes) {
      Layout after = with(at, dim, axes);
      after.partial = without(after.partial, axes);
      if (!fits(after)) return;
      const double n = ranks(axes);
      add(CollectiveKind::ReduceScatter, axes, static_cast<int>(dim), 0, after,
          bytes(at) * (n - 1) / n);
    });
  }

  // Reorders axes while shards keep their size: into the target's order at
  // once, or within one dimension such that the axes that the target shares
  // come first.
  void permute(const Layout& at) {
    const auto consider = [&](const Layout& after) {
      if (after == at || !fits(after) ||
          local_shape(mesh, after, shape) != local_shape(mesh, at, shape)) {
        return;
      }
      AxisNames axes = axes_in(at.spec);
      for (const AxisName& axis : axes_in(after.spec)) axes.push_back(axis);
      add(CollectiveKind::Permute, in_mesh_order(mesh, axes), 0, 0, after,
          bytes(at));
    };
    const Layout ordered{to.spec, at.partial, at.reduction};
    if (!overlaps(ordered)) consider(ordered);
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      Layout after = at;
      AxisNames& axes = after.spec.dims[dim];
      const AxisNames& wants = to.spec.dims[dim];
      std::ranges::stable_sort(axes, {}, [&](const AxisName& axis) {
        return std::ranges::find(wants, axis);
      });
      consider(after);
    }
  }

  // Returns whether an axis is in use twice.
  static bool overlaps(const Layout& layout) {
    AxisNames axes = axes_in_use(layout);
    std::sort(axes.begin(), axes.end());
    return std::adjacent_find(axes.begin(), axes.end()) != axes.end();
  }
};

Cost operator+(const Cost& a, const Cost& b) {
  return {a.bytes + b.bytes, a.collectives + b.collectives,
          a.slices + b.slices};
}

}  // namespace

std::vector<int64_t> shard_indices(const Mesh& mesh, const Layout& layout,
                                   int64_t device) {
  const std::vector<int64_t> coordinates = mesh.coordinates(device);
  std::vector<int64_t> indices;
  for (const AxisNames& axes : layout.spec.dims) {
    indices.push_back(shard_index(mesh, axes, coordinates));
  }
  return indices;
}

std::vector<std::vector<int>> device_groups(const Mesh& mesh,
                                            const AxisNames& axes) {
  AxisNames others;
  for (const Axis& axis : mesh.axes()) {
    if (!contains(axes, axis.name)) others.push_back(axis.name);
  }
  const int64_t ranks = shard_count(mesh, axes);
  std::vector<std::vector<int>> groups(to_size(mesh.devices() / ranks),
                                       std::vector<int>(to_size(ranks)));
  for (int device = 0; device < mesh.devices(); ++device) {
    const std::vector<int64_t> at = mesh.coordinates(device);
    nth(nth(groups, shard_index(mesh, others, at)),
        shard_index(mesh, axes, at)) = device;
  }
  return groups;
}

Ranks ranks_along(const Mesh& mesh, const AxisNames& axes) {
  const int64_t inner = axes.size() > 1 ? mesh.size_of(axes.back()) : 1;
  return {static_cast<int>(shard_count(mesh, axes)), static_cast<int>(inner)};
}

std::vector<int> permute_sources(const Mesh& mesh, const Layout& from,
                                 const Layout& to) {
  std::vector<int> sources;
  std::map<std::vector<int64_t>, std::deque<int>> spare;
  for (int device = 0; device < mesh.devices(); ++device) {
    const auto held = data_key(mesh, from, device);
    const bool keeps = held == data_key(mesh, to, device);
    sources.push_back(keeps ? device : -1);
    if (!keeps) spare[held].push_back(device);
  }
  for (int device = 0; device < mesh.devices(); ++device) {
    int& source = nth(sources, device);
    if (source >= 0) continue;
    std::deque<int>& holders = spare[data_key(mesh, to, device)];
    SHARDPLAN_CHECK(!holders.empty());
    source = holders.front();
    holders.pop_front();
  }
  return sources;
}

Layout replicated(size_t rank) {
  Layout layout;
  layout.spec.dims.resize(rank);
  return layout;
}

Layout layout_of(const Mesh& mesh, const PartitionSpec& spec, size_t rank) {
  Layout layout = replicated(rank);
  for (size_t dim = 0; dim < std::min(rank, spec.dims.size()); ++dim) {
    for (const AxisName& axis : spec.dims[dim]) {
      for (const AxisName& part : parts_of(mesh, axis)) {
        if (mesh.size_of(part) > 1) layout.spec.dims[dim].push_back(part);
      }
    }
  }
  return layout;
}

Shape local_shape(const Mesh& mesh, const Layout& layout, const Shape& shape) {
  SHARDPLAN_CHECK(layout.spec.dims.size() == shape.size());
  Shape local = shape;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    local[dim] = ceil_div(shape[dim], shard_count(mesh, layout.spec.dims[dim]));
  }
  return local;
}

AxisNames uneven_axes(const Mesh& mesh, const AxisNames& axes, int64_t size) {
  AxisNames even = axes;
  while (size % shard_count(mesh, even) != 0) even.pop_back();
  return {axes.data() + even.size(), axes.data() + axes.size()};
}

bool is_even(const Mesh& mesh, const Layout& layout, const Shape& shape) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] % shard_count(mesh, layout.spec.dims[dim]) != 0) {
      return false;
    }
  }
  return true;
}

Layout without_uneven(const Mesh& mesh, Layout layout, const Shape& shape) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    AxisNames& axes = layout.spec.dims[dim];
    axes.resize(axes.size() - uneven_axes(mesh, axes, shape[dim]).size());
  }
  return layout;
}

AxisNames axes_in_use(const Layout& layout) {
  AxisNames axes = layout.partial;
  for (const AxisName& axis : axes_in(layout.spec)) axes.push_back(axis);
  return axes;
}

bool contains_all(const AxisNames& axes, const AxisNames& some) {
  return std::ranges::all_of(
      some, [&](const AxisName& axis) { return contains(axes, axis); });
}

bool contains_any(const AxisNames& axes, const AxisNames& some) {
  return std::ranges::any_of(
      some, [&](const AxisName& axis) { return contains(axes, axis); });
}

bool covers(const Layout& from, const Layout& to) {
  return contains_all(from.partial, to.partial);
}

AxisNames in_mesh_order(const Mesh& mesh, const AxisNames& axes) {
  AxisNames ordered;
  for (const Axis& axis : mesh.axes()) {
    if (contains(axes, axis.name)) ordered.push_back(axis.name);
  }
  return ordered;
}

std::string layout_text(const Layout& layout) {
  std::string text = spec_text(layout.spec);
  for (const AxisName& axis : layout.partial) {
    text += text.ends_with(')') ? " partial over " : ", ";
    text += axis;
  }
  return text;
}

FactorAxes factor_axes(const Mesh& mesh, const ShardingRule& rule,
                       const std::vector<DimFactors>& dims,
                       const PartitionSpec& spec) {
  FactorAxes result(rule.factors.size());
  for (size_t dim = 0; dim < dims.size() && dim < spec.dims.size(); ++dim) {
    distribute(mesh, rule, dims[dim], spec.dims[dim], result);
  }
  return result;
}

std::optional<PartitionSpec> spec_of(const Mesh& mesh, const ShardingRule& rule,
                                     const std::vector<DimFactors>& dims,
                                     const FactorAxes& axes) {
  PartitionSpec spec;
  for (const DimFactors& dim : dims) {
    AxisNames& entry = spec.dims.emplace_back();
    bool into_single_indices = true;
    for (const int factor : dim) {
      const AxisNames& mine = nth(axes, factor);
      const int64_t shards = shard_count(mesh, mine);
      if (shards > 1 && !into_single_indices) return std::nullopt;
      entry.insert(entry.end(), mine.begin(), mine.end());
      into_single_indices &= shards == nth(rule.factors, factor).size;
    }
  }
  return spec;
}

Reshard plan_reshard(const Mesh& mesh, const Shape& shape, const Layout& from,
                     const Layout& to) {
  struct Reached {
    Cost cost;
    Layout before;
    ReshardStep step;
    bool done = false;
  };
  std::map<Layout, Reached> reached;
  std::set<std::pair<Cost, Layout>> open;
  reached[from];
  open.insert({Cost{}, from});
  Moves moves{mesh, shape, to};
  while (!open.empty()) {
    const auto [cost, at] = *open.begin();
    open.erase(open.begin());
    reached[at].done = true;
    if (at == to) break;
    for (Move& move : moves.from(at)) {
      Layout& after = move.step.after;
      if (after.partial.empty()) after.reduction = to.reduction;
      const Cost total = cost + move.cost;
      const auto found = reached.find(after);
      if (found != reached.end()) {
        if (found->second.done || found->second.cost <= total) continue;
        open.erase({found->second.cost, after});
      }
      reached[after] = {total, at, move.step, false};
      open.insert({total, after});
    }
  }
  const auto end = reached.find(to);
  SHARDPLAN_CHECK(end != reached.end());
  Reshard result{.bytes = end->second.cost.bytes};
  for (Layout at = to; !(at == from); at = reached[at].before) {
    result.steps.push_back(reached[at].step);
  }
  std::reverse(result.steps.begin(), result.steps.end());
  return result;
}

const Reshard& ReshardCache::find(const Shape& shape, const Layout& from,
                                  const Layout& to) {
  auto found = known_.find(Lookup(shape, from, to));
  if (found == known_.end()) {
    found = known_
                .emplace(Key(shape, from, to),
                         plan_reshard(*mesh_, shape, from, to))
                .first;
  }
  return found->second;
}

}  // namespace shardplan
