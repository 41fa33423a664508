// SPDX-License-Identifier: Apache-2.0
#include "memory/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "memory/kv_cache.h"

namespace shardplan {
namespace {

// Bytes of cache with which the fullest device is just full. Fragmentation
// takes ceil(S x f) on top of a sum S, so S + ceil(S x f) <= A wherever
// S <= A / (1 + f), and conversely.
int64_t room_for_cache(const BudgetOptions& options, const Budget& budget) {
  constexpr int64_t kMillion = 1'000'000;  // as make_budget reads the fraction
  const Int128 lost = std::llround(options.fragmentation * kMillion);
  const Int128 usable = options.limit->usable - options.reserve;
  const CategoryBytes& bytes = budget.classes.front().bytes;
  const auto of = [&](Category category) {
    return bytes.at(static_cast<size_t>(category));
  };
  const int64_t others = budget.classes.front().total - of(Category::KvCache) -
                         of(Category::RecurrentState) -
                         of(Category::Fragmentation) - of(Category::Reserve);
  if (usable < 0) return -1;
  return static_cast<int64_t>(usable * kMillion / (kMillion + lost)) - others;
}

// With stages the fullest one may change as the cache grows.
template <typename Set>
std::optional<int64_t> largest_that_fits(const Manifest& manifest,
                                         const Plan& plan,
                                         const LayerGroups& groups,
                                         BudgetOptions options, Set set) {
  const auto fits = [&](int64_t value) {
    set(*options.kv, value);
    Diagnostics ignored;  // beyond 63 bits nothing fits
    const auto budget = make_budget(manifest, plan, groups, options, ignored);
    return budget && budget->fits();
  };
  return largest_count(fits);
}

}  // namespace

WorkloadHeadroom find_headroom(const Manifest& manifest, const Plan& plan,
                               const LayerGroups& groups,
                               const BudgetOptions& options,
                               const Budget& budget) {
  if (options.stages) {
    return {largest_that_fits(
                manifest, plan, groups, options,
                [](KvRequest& kv, int64_t value) { kv.batch = value; }),
            largest_that_fits(
                manifest, plan, groups, options,
                [](KvRequest& kv, int64_t value) { kv.seq = value; })};
  }
  const auto layers = kv_layers(manifest.facts);
  if (!layers) return {};
  const int64_t room = room_for_cache(options, budget);
  return {largest_batch(*layers, options.kv_sharding, *options.kv, room),
          longest_context(*layers, options.kv_sharding, *options.kv, room)};
}

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
                                      const LayerGroups& groups,
                                      const BudgetOptions& options,
                                      Diagnostics& diags) {
  const auto budget = make_budget(manifest, mesh.plan, groups, options, diags);
  if (!budget) return std::nullopt;
  return sweep_point(manifest, mesh, groups, options, *budget);
}

SweepPoint sweep_point(const Manifest& manifest, const SweepMesh& mesh,
                       const LayerGroups& groups, const BudgetOptions& options,
                       const Budget& budget) {
  SweepPoint point;
  if (options.kv) {
    point.batch = options.kv->batch;
    point.seq = options.kv->seq;
  }
  point.limit = options.limit;
  point.bytes = budget.classes.front().bytes;
  point.total = budget.classes.front().total;
  point.fit = fit_between(budget.limit, point.total, point.total);
  if (options.kv && options.limit) {
    point.workload_headroom =
        find_headroom(manifest, mesh.plan, groups, options, budget);
  }
  return point;
}

double SweepPoint::cost() const {
  return serving ? -serving->sequences[1] : static_cast<double>(total);
}

void set_step(SweptStep step, const CategoryBytes& bytes, const Fit& fit,
              SweepPoint& point) {
  point.bytes = bytes;
  point.total = step.estimate;
  point.fit = fit;
  point.step = std::move(step);
}

std::vector<size_t> frontier(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes) {
  using Key = std::tuple<std::optional<int64_t>, std::optional<int64_t>,
                         int64_t, std::string, std::string>;
  std::map<Key, size_t> groups;
  std::vector<std::vector<size_t>> members;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i].fit.surely() || !points[i].refused.empty() ||
        meshes[points[i].mesh].errors > 0) {
      continue;
    }
    const std::optional<SweptStep>& step = points[i].step;
    const Key key{points[i].batch, points[i].seq, step ? step->microbatches : 0,
                  step ? step->remat : "",
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
      return std::tuple(devices(a), points[a].cost()) <
             std::tuple(devices(b), points[b].cost());
    });
    double least = std::numeric_limits<double>::infinity();
    int64_t count = 0;  // devices of the last one taken
    for (const size_t i : group) {
      // Equals of the best stand beside it.
      const double cost = points[i].cost();
      const bool equal = cost == least && devices(i) == count;
      if (cost >= least && !equal) continue;
      least = cost;
      count = devices(i);
      best.push_back(i);
    }
  }
  return best;
}

}  // namespace shardplan
