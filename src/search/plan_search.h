// SPDX-License-Identifier: Apache-2.0
// The cheapest points of a PlanSpace, by costs that somebody else knows.
//
// Branch and bound, each step dearer than the one before: a shape is left out
// as a whole where it is illegal or where its least state does not fit; a pass
// where what it computes and keeps would be too much even if it were shared out
// perfectly, then by closer bounds; then points are priced. Of what does not
// fit nobody prices what takes more: the same shape with more sequences at
// once, with a policy that keeps more, with more copies of the weights.
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

// What is wanted least, or most.
enum class PlanObjective : uint8_t { StepTime, Memory };

enum class PlanVerdict : uint8_t {
  Fits,
  MayFit,  // the upper end of its memory does not, the lower does
  Unfit,
  Illegal,
};

struct PlanCost {
  PlanVerdict verdict = PlanVerdict::Illegal;
  std::string reason;  // of what is illegal: "SP206: .."
  // The rest is known of what is legal, times where the state alone fits.
  int64_t least_memory = 0;  // bytes of the fullest device
  int64_t memory = 0;        // by the estimate
  int64_t most_memory = 0;
  bool timed = false;
  Seconds step = {};
  double tokens_per_second = 0;
  double mfu = 0;
  std::string limited_by = {};
  // What it consists of, in seconds of the estimate.
  std::vector<std::pair<std::string, double>> parts = {};
  // Seconds that no point of the same pass takes less than.
  double least_of_pass = 0;
};

// What a point takes at least, and of `seconds` every point of its pass.
struct LeastCost {
  double seconds = 0;
  double bytes = 0;  // of the fullest device
};

// All are called from several threads at once.
struct PlanCosts {
  // Why no point of a shape is legal or fits; empty: some may.
  std::function<std::optional<PlanCost>(const PlanPoint& shape)> refused;
  // Without pricing anything.
  std::function<LeastCost(const PlanPoint&)> least;
  // Closer bounds of every point of a pass, each dearer than the one before.
  std::vector<std::function<LeastCost(const PlanPoint& pass)>> closer;
  std::function<PlanCost(const PlanPoint&)> price;
  // How often something was evaluated so far, which a budget counts: what is
  // known from before costs nothing. Empty: every look counts.
  std::function<int64_t()> evaluations;
  // What devices hold; empty: there is no limit.
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
  std::vector<PricedPlan> priced;  // in the order in which they were looked at
  std::vector<size_t> best;        // that fit, the cheapest first
  double lower_bound = 0;          // of every point of the space
  int64_t looks = 0;
  bool exhausted = true;  // the budget cut nothing off
  // Points of the space: all; of those that were refused, each reason once; not
  // priced, since they cannot be cheaper, or since the budget left them alone.
  int64_t considered = 0;
  std::vector<RejectedPlans> rejected;
  int64_t worse = 0;
  int64_t left_alone = 0;
};

double objective_of(PlanObjective objective, const PlanCost& cost);

// The points that are likely to hold least: one for each shape, in as many
// micro-batches as possible and with the policy that keeps least.
std::vector<PlanPoint> smallest_points(const PlanSpace& space,
                                       const PlanCosts& costs);

// The best of each shape, the cheapest first, but for the number of `most`: all
// that are alike in stages, parts of sequences and of products, and experts.
std::vector<size_t> best_of_shapes(const PlanAnswer& answer, size_t most);

// So many of the best `shapes` are searched beyond the best of all, each for a
// twentieth of the budget, so that they can be compared.
PlanAnswer search_plans(const PlanSpace& space, PlanObjective objective,
                        const PlanCosts& costs, const SearchBudget& budget,
                        size_t shapes = 0);

}  // namespace shardplan
