// SPDX-License-Identifier: Apache-2.0

#include "spmd/layout.h"

#include <algorithm>
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
    bool taken = false;
    for (const AxisName& name : axes) taken = taken || name == axis.name;
    if (!taken) others.push_back(axis.name);
  }
  const auto ranks = static_cast<size_t>(shard_count(mesh, axes));
  std::vector<std::vector<int>> groups(
      static_cast<size_t>(mesh.devices()) / ranks, std::vector<int>(ranks));
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const std::vector<int64_t> at = mesh.coordinates(device);
    const auto group = static_cast<size_t>(shard_index(mesh, others, at));
    const auto rank = static_cast<size_t>(shard_index(mesh, axes, at));
    groups[group][rank] = static_cast<int>(device);
  }
  return groups;
}

Ranks ranks_along(const Mesh& mesh, const AxisNames& axes) {
  const int64_t inner = axes.size() > 1 ? mesh.size_of(axes.back()) : 1;
  return {static_cast<int>(shard_count(mesh, axes)), static_cast<int>(inner)};
}

std::vector<int> permute_sources(const Mesh& mesh, const Layout& from,
                                 const Layout& to) {
  const auto devices = static_cast<size_t>(mesh.devices());
  std::vector<int> sources(devices, -1);
  std::map<std::vector<int64_t>, std::vector<int>> spare;
  for (size_t device = 0; device < devices; ++device) {
    const auto id = static_cast<int64_t>(device);
    const auto held = data_key(mesh, from, id);
    if (held == data_key(mesh, to, id)) {
      sources[device] = static_cast<int>(device);
    } else {
      spare[held].push_back(static_cast<int>(device));
    }
  }
  std::map<std::vector<int64_t>, size_t> used;
  for (size_t device = 0; device < devices; ++device) {
    if (sources[device] >= 0) continue;
    const auto needed = data_key(mesh, to, static_cast<int64_t>(device));
    const std::vector<int>& holders = spare[needed];
    size_t& next = used[needed];
    SHARDPLAN_CHECK(next < holders.size());
    sources[device] = holders[next++];
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
  return {axes.begin() + static_cast<std::ptrdiff_t>(even.size()), axes.end()};
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
  for (const AxisNames& dim : layout.spec.dims) {
    axes.insert(axes.end(), dim.begin(), dim.end());
  }
  return axes;
}

bool covers(const Layout& from, const Layout& to) {
  return std::all_of(
      to.partial.begin(), to.partial.end(), [&](const AxisName& axis) {
        return std::find(from.partial.begin(), from.partial.end(), axis) !=
               from.partial.end();
      });
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

namespace {

// Assigns the axes of one dimension to its factors.
void distribute(const Mesh& mesh, const ShardingRule& rule,
                const DimFactors& dim, const AxisNames& axes,
                FactorAxes& result) {
  if (dim.empty()) return;
  size_t at = 0;
  int64_t left = rule.factors[static_cast<size_t>(dim[0])].size;
  for (const AxisName& axis : axes) {
    const int64_t size = mesh.size_of(axis);
    while (left == 1 && at + 1 < dim.size()) {
      left = rule.factors[static_cast<size_t>(dim[++at])].size;
    }
    const auto factor = static_cast<size_t>(dim[at]);
    if (rule.factors[factor].kind == FactorKind::Whole || left % size != 0) {
      return;
    }
    left /= size;
    result[factor].push_back(axis);
  }
}

}  // namespace

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
    for (const int number : dim) {
      const auto factor = static_cast<size_t>(number);
      const int64_t shards = shard_count(mesh, axes[factor]);
      if (shards > 1 && !into_single_indices) return std::nullopt;
      entry.insert(entry.end(), axes[factor].begin(), axes[factor].end());
      into_single_indices =
          into_single_indices && shards == rule.factors[factor].size;
    }
  }
  return spec;
}

// Dijkstra's algorithm over layouts. There are few layouts, since there are few
// axes and dimensions, and since moves add only axes of the target to a
// dimension.

namespace {

// The bytes that a device sends, then collectives, then slices.
using Cost = std::tuple<double, int, int>;

struct Move {
  ReshardStep step;
  Cost cost;
};

class Moves {
 public:
  Moves(const Mesh& mesh, const Shape& shape, const Layout& to)
      : mesh_(mesh), shape_(shape), to_(to) {}

  std::vector<Move> from(const Layout& at) {
    moves_.clear();
    settle(at);
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      const auto d = static_cast<int>(dim);
      const AxisNames& axes = at.spec.dims[dim];
      for (size_t keep = 0; keep < axes.size(); ++keep) {
        const AxisNames tail(axes.begin() + static_cast<ptrdiff_t>(keep),
                             axes.end());
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
    return std::move(moves_);
  }

 private:
  double ranks(const AxisNames& axes) const {
    return static_cast<double>(shard_count(mesh_, axes));
  }
  double bytes(const Layout& layout) const {
    auto total = static_cast<double>(storage_bytes(Storage::F32));
    for (const int64_t size : local_shape(mesh_, layout, shape_)) {
      total *= static_cast<double>(size);
    }
    return total;
  }
  bool fits(const Layout& layout) const {
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      if (shape_[dim] % shard_count(mesh_, layout.spec.dims[dim]) != 0) {
        return false;
      }
    }
    return true;
  }
  void add(CollectiveKind kind, const AxisNames& axes, int dim, int grown,
           const Layout& after, double cost) {
    moves_.push_back(
        {{false, kind, axes, dim, grown, after}, Cost{cost, 1, 0}});
  }

  // Returns the axes that the target has on a dimension and this layout has
  // not. They may be added in any order: a permute reorders them.
  AxisNames missing(const Layout& at, size_t dim) const {
    AxisNames axes;
    for (const AxisName& axis : to_.spec.dims[dim]) {
      if (!contains(at.spec.dims[dim], axis)) axes.push_back(axis);
    }
    return axes;
  }

  // Calls visit(axes) for every contiguous run of `axes`.
  template <typename Visit>
  static void each_run(const AxisNames& axes, const Visit& visit) {
    for (size_t begin = 0; begin < axes.size(); ++begin) {
      for (size_t end = begin + 1; end <= axes.size(); ++end) {
        visit(AxisNames(axes.begin() + static_cast<ptrdiff_t>(begin),
                        axes.begin() + static_cast<ptrdiff_t>(end)));
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
    const AxisNames used = axes_in_use(at);
    AxisNames unused;
    for (const AxisName& axis : missing(at, dim)) {
      if (!contains(used, axis)) unused.push_back(axis);
    }
    each_run(unused, [&](const AxisNames& axes) {
      const Layout after = with(at, dim, axes);
      if (!fits(after)) return;
      moves_.push_back({{true, CollectiveKind::AllGather, axes,
                         static_cast<int>(dim), 0, after},
                        Cost{0, 0, 1}});
    });
  }

  // Moves the minor axes of `dim` to the end of another dimension.
  void exchange(const Layout& at, size_t dim, const AxisNames& tail,
                const Layout& without) {
    for (size_t other = 0; other < shape_.size(); ++other) {
      if (other == dim) continue;
      const AxisNames wanted = missing(at, other);
      const bool all = std::all_of(
          tail.begin(), tail.end(),
          [&](const AxisName& axis) { return contains(wanted, axis); });
      const Layout after = with(without, other, tail);
      if (!all || !fits(after)) continue;
      const double n = ranks(tail);
      add(CollectiveKind::AllToAll, tail, static_cast<int>(other),
          static_cast<int>(dim), after, bytes(at) * (n - 1) / n);
    }
  }

  // Adds up partial sums that the target does not have.
  void settle(const Layout& at) {
    AxisNames due;
    for (const AxisName& axis : at.partial) {
      if (!contains(to_.partial, axis)) due.push_back(axis);
    }
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
    for (size_t dim = 0; dim < shape_.size(); ++dim) scatter(at, dim, due);
  }

  void scatter(const Layout& at, size_t dim, const AxisNames& due) {
    AxisNames possible;
    for (const AxisName& axis : missing(at, dim)) {
      if (contains(due, axis)) possible.push_back(axis);
    }
    each_run(possible, [&](const AxisNames& axes) {
      Layout after = with(at, dim, axes);
      for (const AxisName& axis : axes) erase(after.partial, axis);
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
          local_shape(mesh_, after, shape_) != local_shape(mesh_, at, shape_)) {
        return;
      }
      add(CollectiveKind::Permute, in_mesh_order(mesh_, axes_of(at, after)), 0,
          0, after, bytes(at));
    };
    Layout all = to_;
    all.partial = at.partial;
    all.reduction = at.reduction;
    if (!overlaps(all)) consider(all);
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      Layout after = at;
      AxisNames& axes = after.spec.dims[dim];
      const AxisNames& wants = to_.spec.dims[dim];
      std::stable_sort(axes.begin(), axes.end(),
                       [&](const AxisName& a, const AxisName& b) {
                         return std::find(wants.begin(), wants.end(), a) <
                                std::find(wants.begin(), wants.end(), b);
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
  // Returns the axes that shard a dimension in either layout.
  static AxisNames axes_of(const Layout& a, const Layout& b) {
    AxisNames axes;
    for (const Layout* layout : {&a, &b}) {
      for (const AxisNames& dim : layout->spec.dims) {
        axes.insert(axes.end(), dim.begin(), dim.end());
      }
    }
    return axes;
  }

  const Mesh& mesh_;
  const Shape& shape_;
  const Layout& to_;
  std::vector<Move> moves_;
};

Cost operator+(const Cost& a, const Cost& b) {
  return {std::get<0>(a) + std::get<0>(b), std::get<1>(a) + std::get<1>(b),
          std::get<2>(a) + std::get<2>(b)};
}

}  // namespace

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
  reached[from].cost = Cost{0, 0, 0};
  open.insert({Cost{0, 0, 0}, from});
  Moves moves(mesh, shape, to);
  while (!open.empty()) {
    const auto [cost, at] = *open.begin();
    open.erase(open.begin());
    reached[at].done = true;
    if (at == to) break;
    for (Move& move : moves.from(at)) {
      Layout after = move.step.after;
      if (after.partial.empty()) after.reduction = to.reduction;
      move.step.after = after;
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
  Reshard result;
  result.bytes = std::get<0>(end->second.cost);
  for (Layout at = to; !(at == from); at = reached[at].before) {
    result.steps.push_back(reached[at].step);
  }
  std::reverse(result.steps.begin(), result.steps.end());
  return result;
}

const Reshard& ReshardCache::find(const Shape& shape, const Layout& from,
                                  const Layout& to) {
  const auto found = known_.find(Lookup(shape, from, to));
  if (found != known_.end()) return found->second;
  return known_
      .emplace(Key(shape, from, to), plan_reshard(*mesh_, shape, from, to))
      .first->second;
}

}  // namespace shardplan
