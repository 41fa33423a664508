// SPDX-License-Identifier: Apache-2.0
#include "memory/margins.h"

#include <cmath>
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
                         of(Category::Fragmentation) - of(Category::Reserve);
  if (usable < 0) return -1;
  return static_cast<int64_t>(usable * kMillion / (kMillion + lost)) - others;
}

// With stages the fullest one may change as the cache grows.
template <typename Set>
std::optional<int64_t> largest_that_fits(const Manifest& manifest,
                                         const Plan& plan,
                                         const LayerUnits& units,
                                         BudgetOptions options, Set set) {
  const auto fits = [&](int64_t value) {
    set(*options.kv, value);
    Diagnostics ignored;  // beyond 63 bits nothing fits
    const auto budget = make_budget(manifest, plan, units, options, ignored);
    return budget && budget->fits();
  };
  return largest_count(fits);
}

}  // namespace

Margins find_margins(const Manifest& manifest, const Plan& plan,
                     const LayerUnits& units, const BudgetOptions& options,
                     const Budget& budget) {
  if (options.stages) {
    return {largest_that_fits(
                manifest, plan, units, options,
                [](KvRequest& kv, int64_t value) { kv.batch = value; }),
            largest_that_fits(
                manifest, plan, units, options,
                [](KvRequest& kv, int64_t value) { kv.seq = value; })};
  }
  const auto layers = kv_layers(manifest.facts);
  if (!layers) return {};
  const int64_t room = room_for_cache(options, budget);
  return {largest_batch(*layers, options.kv_sharding, *options.kv, room),
          longest_context(*layers, options.kv_sharding, *options.kv, room)};
}

}  // namespace shardplan
