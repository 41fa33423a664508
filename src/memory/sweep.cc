// SPDX-License-Identifier: Apache-2.0
#include "memory/sweep.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace shardplan {
namespace {

// Descending.
std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= number / i; ++i) {
    if (number % i != 0) continue;
    found.push_back(i);
    if (i != number / i) found.push_back(number / i);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

// Appends every way to give sizes to the axes from `axes.size()` on. False once
// there are more than `limit`.
bool add_factorizations(int64_t rest, const AxisNames& over, size_t limit,
                        std::vector<Axis>& axes, std::vector<Mesh>& found) {
  const AxisName& name = over[axes.size()];
  if (axes.size() + 1 == over.size()) {
    if (found.size() == limit) return false;
    axes.push_back({name, rest});
    found.emplace_back(axes);
    axes.pop_back();
    return true;
  }
  for (const int64_t size : divisors(rest)) {
    axes.push_back({name, size});
    const bool good = add_factorizations(rest / size, over, limit, axes, found);
    axes.pop_back();
    if (!good) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Mesh>> factorizations(int64_t devices,
                                                const AxisNames& over,
                                                size_t limit) {
  std::vector<Axis> axes;
  std::vector<Mesh> found;
  if (!add_factorizations(devices, over, limit, axes, found)) {
    return std::nullopt;
  }
  return found;
}

std::optional<SweepPoint> sweep_point(const Manifest& manifest,
                                      const SweepMesh& mesh,
                                      const LayerUnits& units,
                                      const BudgetOptions& options,
                                      Diagnostics& diags) {
  const auto budget = make_budget(manifest, mesh.plan, units, options, diags);
  if (!budget) return std::nullopt;
  SweepPoint point;
  if (options.kv) {
    point.batch = options.kv->batch;
    point.seq = options.kv->seq;
  }
  point.limit = options.limit;
  point.bytes = budget->classes.front().bytes;
  point.total = budget->classes.front().total;
  point.headroom = budget->headroom;
  point.fits = budget->fits();
  if (options.kv && options.limit) {
    point.margins = find_margins(manifest, mesh.plan, units, options, *budget);
  }
  return point;
}

std::vector<size_t> frontier(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes) {
  using Key =
      std::tuple<std::optional<int64_t>, std::optional<int64_t>, std::string>;
  std::map<Key, size_t> groups;
  std::vector<std::vector<size_t>> members;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i].fits || meshes[points[i].mesh].errors > 0) continue;
    const Key key{points[i].batch, points[i].seq,
                  points[i].limit ? points[i].limit->name : ""};
    const auto [entry, is_new] = groups.try_emplace(key, members.size());
    if (is_new) members.emplace_back();
    members[entry->second].push_back(i);
  }
  const auto devices = [&](size_t i) {
    return meshes[points[i].mesh].plan.mesh.devices();
  };
  std::vector<size_t> best;
  for (std::vector<size_t>& group : members) {
    std::stable_sort(group.begin(), group.end(), [&](size_t a, size_t b) {
      return std::tuple(devices(a), points[a].total) <
             std::tuple(devices(b), points[b].total);
    });
    int64_t least = std::numeric_limits<int64_t>::max();
    int64_t count = 0;  // devices of the last one taken
    for (const size_t i : group) {
      // Equals of the best stand beside it.
      const bool equal = points[i].total == least && devices(i) == count;
      if (points[i].total >= least && !equal) continue;
      least = points[i].total;
      count = devices(i);
      best.push_back(i);
    }
  }
  return best;
}

}  // namespace shardplan
