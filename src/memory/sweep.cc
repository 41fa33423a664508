// SPDX-License-Identifier: Apache-2.0
#include "memory/sweep.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"

namespace shardplan {
namespace {

// Returns the divisors, descending.
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

// Appends every assignment of sizes to the axes from `axes.size()` on. Returns
// false once there are more than `limit`.
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

double SweepPoint::cost() const {
  if (objective == Objective::StepTime)
    return (*nth(times.of, *times.asked))[1];
  if (objective == Objective::TokensPerSecond) return -times.tokens_per_second;
  return serving ? -serving->sequences[1] : static_cast<double>(total);
}

std::vector<size_t> frontier(const std::vector<SweepPoint>& points,
                             const std::vector<SweepMesh>& meshes) {
  using Key = std::tuple<std::optional<int64_t>, std::optional<int64_t>,
                         int64_t, std::string, std::string>;
  std::map<Key, size_t> groups;
  std::vector<std::vector<size_t>> members;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i].will_fit() || meshes[points[i].mesh].errors > 0) continue;
    const std::optional<SweptStep>& step = points[i].step;
    const Key key{points[i].batch, points[i].seq, step ? step->microbatches : 0,
                  step ? step->remat : "", points[i].device};
    const auto [entry, is_new] = groups.try_emplace(key, members.size());
    if (is_new) members.emplace_back();
    members[entry->second].push_back(i);
  }
  const auto devices = [&](size_t i) {
    return meshes[points[i].mesh].mesh.devices();
  };
  std::vector<size_t> best;
  for (std::vector<size_t>& group : members) {
    std::ranges::stable_sort(group, [&](size_t a, size_t b) {
      return std::tuple(devices(a), points[a].cost()) <
             std::tuple(devices(b), points[b].cost());
    });
    double least = std::numeric_limits<double>::infinity();
    int64_t count = 0;  // devices of the last point taken
    for (const size_t i : group) {
      // Points equal to the best are taken as well.
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
