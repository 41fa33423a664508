// SPDX-License-Identifier: Apache-2.0
// search_plans(): finds the cheapest points of a PlanSpace, using costs that
// the caller provides.
//
// It is a branch and bound whose steps become more expensive. A shape is
// skipped as a whole if it is illegal or if its smallest state does not fit. A
// pass is skipped if its computation or memory would be too much even when
// perfectly shared, and then by closer bounds. Then points are priced. If a
// point does not fit, points that need more memory are not priced: those of the
// same shape with more sequences at once, with a recompute policy that saves
// more, or with more replicas of the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/kernels.h"
#include "search/plan_space.h"

namespace shardplan {

// The quantity to minimise.
enum class PlanObjective : uint8_t { StepTime, Memory };

enum class PlanVerdict : uint8_t {
  Fits,
  MayFit,  // the upper bound of its memory does not fit, the lower does
  Unfit,
  Illegal,
};

struct PlanCost {
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason = {};  // if illegal: "SP206: .."
  // The rest is set if the plan is legal; times only if the state alone fits.
  int64_t least_memory = 0;  // bytes of the fullest device, lower bound
  int64_t memory = 0;        // estimate
  int64_t most_memory = 0;
  bool timed = false;
  Seconds step = {};
  double tokens_per_second = 0;
  double mfu = 0;
  std::string limited_by = {};
  // The parts of the step, in seconds of the estimate.
  std::vector<std::pair<std::string, double>> parts = {};
};

// Lower bounds for a point. `seconds` holds for every point of its pass.
struct LeastCost {
  double seconds = 0;
  double bytes = 0;  // on the fullest device
};

// All functions are called from several threads at once.
struct PlanCosts {
  // Returns why no point of a shape is legal or fits; empty: some may.
  std::function<std::optional<PlanCost>(const PlanPoint& shape)> refused;
  // Returns bounds that need no pricing.
  std::function<LeastCost(const PlanPoint&)> least;
  // Functions that return closer bounds for every point of a pass, each more
  // expensive than the previous.
  std::vector<std::function<LeastCost(const PlanPoint& pass)>> closer;
  std::function<PlanCost(const PlanPoint&)> price;
  // Returns a lower bound, in seconds, for another point of a priced point's
  // pass. Empty: none is known.
  std::function<double(const PlanPoint& priced, const PlanPoint& other)> beside;
  // Returns the number of evaluations so far, which a budget counts: cached
  // results are free. Empty: every look counts.
  std::function<int64_t()> evaluations;
  // Capacity of a device, in bytes; empty: no limit.
  std::optional<int64_t> limit;
};

struct PricedPlan {
  PlanPoint point;
  PlanCost cost;
};

struct RejectedPlans {
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason;
  int64_t count = 0;
  PlanPoint example;
};

struct PlanAnswer {
  std::vector<PricedPlan> priced;  // in the order of the looks
  std::vector<size_t> best;        // indices into `priced` of those that fit,
                                   // the cheapest first
  double lower_bound = 0;          // for every point of the space
  int64_t looks = 0;
  bool exhausted = true;  // the budget skipped nothing
  // The number of points in the space; the refused ones by reason; and those
  // that were not priced because they cannot be cheaper (`worse`) or because
  // the budget skipped them (`skipped`).
  int64_t considered = 0;
  std::vector<RejectedPlans> rejected;
  int64_t worse = 0;
  int64_t skipped = 0;
};

double objective_of(PlanObjective objective, const PlanCost& cost);

// Returns the points that are likely to need the least memory: one per shape,
// with as many micro-batches as possible and the policy that saves least.
std::vector<PlanPoint> smallest_points(const PlanSpace& space,
                                       const PlanCosts& costs);

// Returns the best point of each shape, the cheapest first, at most `most`. A
// shape here means equal stages, sequence, tensor and expert parallelism.
std::vector<size_t> best_of_shapes(const PlanAnswer& answer, size_t most);

// Searches the space. Then searches the best `shapes` further, each for a
// twentieth of the budget, so that they can be compared; at least five if the
// budget has left a plan that may be better.
PlanAnswer search_plans(const PlanSpace& space, PlanObjective objective,
                        const PlanCosts& costs, const SearchBudget& budget,
                        size_t shapes = 0);

}  // namespace shardplan
