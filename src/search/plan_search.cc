// SPDX-License-Identifier: Apache-2.0
#include "search/plan_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/parallel.h"

namespace shardplan {
namespace {

struct PlanBranch {
  enum class Of : uint8_t { Shape, Pass, Point } of = Of::Shape;
  PlanPoint point;
  int64_t points = 1;  // in it
  size_t bounds = 0;   // of a pass, the closer ones that are known
};

// What all points of a shape have in common.
auto shape_of(const PlanPoint& point) {
  using enum PlanAxis;
  return std::tuple(point.of(Stages), point.of(Sequence), point.of(Tensor),
                    point.experts, point.expert_tensor,
                    point.tokens_over_tensor);
}

// Whether the point holds at least as much as another one of its shape.
bool holds_more(const PlanPoint& point, const PlanPoint& than) {
  const auto parts = [](const PlanPoint& p) {
    return p.microbatches * p.data();
  };
  return point.remat <= than.remat && parts(point) <= parts(than) &&
         point.chunks >= than.chunks && point.zero <= than.zero &&
         point.of(PlanAxis::Replicas) >= than.of(PlanAxis::Replicas);
}

struct Looked : LookedAt<PlanBranch> {
  std::optional<PlanCost> refusal;  // of a shape
  std::vector<PricedPlan> priced;
  // Points that are too much in any case, each for so many.
  std::vector<std::pair<PlanPoint, int64_t>> unfit;
  std::optional<PlanVerdict> known;  // by a point that holds less
};

class PlanSearch {
 public:
  PlanSearch(const PlanSpace& space, PlanObjective objective,
             const PlanCosts& costs)
      : space_(space), objective_(objective), costs_(costs) {}

  PlanAnswer run(const SearchBudget& budget) {
    std::vector<Branch<PlanBranch>> roots;
    for (const PlanPoint& shape : plan_shapes(space_)) {
      const std::vector<PlanPoint> passes = plan_passes(space_, shape);
      if (passes.empty()) {
        PlanCost undivided;
        undivided.reason =
            "the batch does not divide by the devices of data parallelism";
        reject(undivided, shape, 1);
        ++answer_.considered;
        continue;
      }
      std::optional<double> least;
      int64_t points = 0;
      for (const PlanPoint& pass : passes) {
        points += points_of_pass(pass);
        const LeastCost cost = costs_.least(pass);
        if (is_too_much(cost)) continue;
        least = std::min(least.value_or(bound(cost)), bound(cost));
      }
      answer_.considered += points;
      if (least) {
        roots.push_back({*least, {PlanBranch::Of::Shape, shape, points, 0}});
      } else {
        reject_unfit(passes.front(), points);
      }
    }
    SearchBudget rest = budget;
    rest.value = climb(budget.threads);
    auto end = best_first<PlanBranch>(
        std::move(roots), rest,
        [this](const PlanBranch& branch) { return look(branch); },
        [this](const PlanBranch& branch, const Looked& looked) {
          take(branch, looked);
        });
    answer_.lower_bound = end.lower_bound;
    answer_.looks = end.looks;
    for (const Branch<PlanBranch>& left : end.left) {
      const bool is_open = !end.value || left.bound < *end.value;
      (is_open ? answer_.left_alone : answer_.worse) += left.item.points;
      if (is_open) answer_.exhausted = false;
    }
    rank();
    return std::move(answer_);
  }

 private:
  // For each number of stages the simplest legal shape: the least of tensor
  // parallelism, then of parts of sequences, without a view of experts.
  std::vector<PlanPoint> starts() const {
    std::vector<PlanPoint> starts;
    for (const PlanPoint& shape : plan_shapes(space_)) {
      const bool is_new =
          starts.empty() ||
          starts.back().of(PlanAxis::Stages) != shape.of(PlanAxis::Stages);
      if (starts.size() == kStarts && is_new) break;
      if (!is_new || shape.experts > 1) continue;
      const std::vector<PlanPoint> passes = plan_passes(space_, shape);
      if (passes.empty() || costs_.refused(shape)) continue;
      // In as many parts as can be, with the policy that keeps least.
      starts.push_back(passes.back());
    }
    return starts;
  }

  // A value to begin with: from there to better neighbours as long as there are
  // any; and, where none of them fits, of what holds least.
  std::optional<double> climb(int threads) {
    std::optional<PlanPoint> highest;
    std::optional<double> best;
    for (const PlanPoint& start : starts()) {
      PlanPoint at = start;
      double height = heights({start}, threads).front();
      for (bool climbs = true; climbs;) {
        climbs = false;
        std::vector<PlanPoint> next = plan_neighbours(space_, at);
        std::erase_if(next, [&](const PlanPoint& pass) {
          const LeastCost least = costs_.least(pass);
          return is_too_much(least) || (best && bound(least) >= *best) ||
                 !climbed_.insert(pass).second;
        });
        const std::vector<double> found = heights(next, threads);
        for (size_t i = 0; i < next.size(); ++i) {
          if (found[i] >= height) continue;
          height = found[i];
          at = next[i];
          climbs = true;
        }
      }
      if (height < kUnfit && (!best || height < *best)) {
        best = height;
        highest = at;
      }
    }
    if (!highest) {
      for (const Looked& each :
           priced(smallest_points(space_, costs_), threads)) {
        if (!each.value || (best && *each.value >= *best)) continue;
        best = each.value;
        highest = each.priced.front().point;
        highest->of(PlanAxis::Shards) = highest->data();
        highest->of(PlanAxis::Replicas) = 1;
      }
    }
    if (!highest) return best;
    // Other ways of data parallelism of the best pass.
    std::vector<PlanPoint> points = plan_points(space_, *highest);
    std::erase_if(points, [&](const PlanPoint& point) {
      return is_too_much(costs_.least(point)) || met_.count(point) > 0;
    });
    for (const Looked& each : priced(points, threads)) {
      if (each.value) best = std::min(*best, *each.value);
    }
    return best;
  }

  // Each looked at by `look`, side by side, with what it prices noted.
  template <typename Look>
  std::vector<Looked> look_at_all(const std::vector<PlanPoint>& points,
                                  int threads, Look look) {
    std::vector<Looked> looked(points.size());
    parallel_for(static_cast<int64_t>(points.size()), threads, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      look(points[at], looked[at]);
    });
    for (const Looked& each : looked) {
      for (const PricedPlan& plan : each.priced) note_priced(plan);
    }
    return looked;
  }
  std::vector<Looked> priced(const std::vector<PlanPoint>& points,
                             int threads) {
    return look_at_all(points, threads,
                       [this](const PlanPoint& point, Looked& looked) {
                         price(point, looked);
                       });
  }

  static constexpr size_t kStarts = 6;  // numbers of stages
  // What passes cost; of those that do not fit, how far they are from it.
  static constexpr double kUnfit = 1e30;
  std::vector<double> heights(const std::vector<PlanPoint>& passes,
                              int threads) {
    const std::vector<Looked> looked = look_at_all(
        passes, threads,
        [this](const PlanPoint& pass, Looked& to) { look_at_pass(pass, to); });
    std::vector<double> all;
    for (const Looked& each : looked) {
      const PlanCost& cost = each.priced.front().cost;
      if (each.value) {
        all.push_back(*each.value);
      } else if (cost.verdict == PlanVerdict::Illegal) {
        all.push_back(std::numeric_limits<double>::infinity());
      } else {
        all.push_back(kUnfit * (1 + static_cast<double>(cost.most_memory)));
      }
    }
    return all;
  }

  double bound(const LeastCost& cost) const {
    return objective_ == PlanObjective::StepTime ? cost.seconds : cost.bytes;
  }
  bool is_too_much(const LeastCost& cost) const {
    return costs_.limit && cost.bytes > static_cast<double>(*costs_.limit);
  }
  int64_t points_of_pass(const PlanPoint& pass) const {
    return static_cast<int64_t>(plan_points(space_, pass).size());
  }

  Looked look(const PlanBranch& branch) const {
    Looked looked;
    if (branch.of == PlanBranch::Of::Shape) {
      look_at_shape(branch.point, looked);
      return looked;
    }
    looked.known = known_of(branch.point);
    if (looked.known) return looked;
    if (branch.of == PlanBranch::Of::Point) {
      price(branch.point, looked);
    } else if (is_priced(branch)) {
      look_at_pass(branch.point, looked);
    } else {
      PlanBranch closer = branch;
      ++closer.bounds;
      looked.branches.push_back(
          {costs_.closer[branch.bounds](branch.point), closer});
    }
    return looked;
  }

  // Whether a look at it prices its first point.
  bool is_priced(const PlanBranch& pass) const {
    return objective_ != PlanObjective::StepTime ||
           pass.bounds == costs_.closer.size();
  }

  void look_at_shape(const PlanPoint& shape, Looked& looked) const {
    looked.refusal = costs_.refused(shape);
    if (looked.refusal) return;
    for (const PlanPoint& pass : plan_passes(space_, shape)) {
      const LeastCost least = costs_.least(pass);
      const int64_t points = points_of_pass(pass);
      if (is_too_much(least)) {
        looked.unfit.emplace_back(pass, points);
        continue;
      }
      looked.branches.push_back(
          {bound(least), {PlanBranch::Of::Pass, pass, points, 0}});
    }
  }

  void look_at_pass(const PlanPoint& pass, Looked& looked) const {
    std::vector<PlanPoint> points = plan_points(space_, pass);
    const auto is_unfit = [&](const PlanPoint& point) {
      if (!is_too_much(costs_.least(point))) return false;
      looked.unfit.emplace_back(point, 1);
      return true;
    };
    const PlanPoint first = points.front();
    points.erase(points.begin());
    std::erase_if(points, is_unfit);
    price(first, looked);
    const PlanCost& cost = looked.priced.front().cost;
    const double least =
        objective_ == PlanObjective::StepTime ? cost.least_of_pass : 0;
    // The fewer devices have parts of one copy, the less they send: what may
    // fit with the most copies is as good a guess.
    if (cost.verdict == PlanVerdict::Fits && !points.empty()) {
      const auto most =
          std::ranges::max_element(points, {}, [](const PlanPoint& point) {
            return std::pair(point.of(PlanAxis::Replicas), point.zero);
          });
      price(*most, looked);
      points.erase(most);
    }
    for (const PlanPoint& point : points) {
      looked.branches.push_back({least, {PlanBranch::Of::Point, point, 1, 0}});
    }
  }

  void price(const PlanPoint& point, Looked& looked) const {
    looked.priced.push_back({point, costs_.price(point)});
    const PlanCost& cost = looked.priced.back().cost;
    if (cost.verdict != PlanVerdict::Fits) return;
    const double value = objective_of(objective_, cost);
    looked.value = std::min(looked.value.value_or(value), value);
  }

  // The verdict of a point of the shape that holds less and does not fit.
  std::optional<PlanVerdict> known_of(const PlanPoint& point) const {
    const auto of_shape = unfit_.find(shape_of(point));
    if (of_shape == unfit_.end()) return std::nullopt;
    for (const auto& [other, verdict] : of_shape->second) {
      if (holds_more(point, other)) return verdict;
    }
    return std::nullopt;
  }

  void reject(const PlanCost& cost, const PlanPoint& example, int64_t count) {
    const auto same =
        std::ranges::find_if(answer_.rejected, [&](const RejectedPlans& each) {
          return each.verdict == cost.verdict && each.reason == cost.reason;
        });
    if (same != answer_.rejected.end()) {
      same->count += count;
    } else {
      answer_.rejected.push_back({cost.verdict, cost.reason, count, example});
    }
  }
  void reject_unfit(const PlanPoint& example, int64_t count,
                    PlanVerdict verdict = PlanVerdict::Unfit) {
    PlanCost cost;
    cost.verdict = verdict;
    reject(cost, example, count);
  }

  void take(const PlanBranch& branch, const Looked& looked) {
    for (const auto& [point, count] : looked.unfit) reject_unfit(point, count);
    if (looked.known) {
      reject_unfit(branch.point, branch.points, *looked.known);
      return;
    }
    if (looked.refusal) reject(*looked.refusal, branch.point, branch.points);
    for (const PricedPlan& each : looked.priced) {
      note_priced(each);
      if (each.cost.verdict != PlanVerdict::Fits) {
        reject(each.cost, each.point, 1);
      }
    }
  }

  // Each once, however often it is met.
  void note_priced(const PricedPlan& plan) {
    if (!met_.insert(plan.point).second) return;
    answer_.priced.push_back(plan);
    const PlanVerdict verdict = plan.cost.verdict;
    if (verdict == PlanVerdict::Unfit || verdict == PlanVerdict::MayFit) {
      unfit_[shape_of(plan.point)].emplace_back(plan.point, verdict);
    }
  }

  void rank() {
    for (size_t i = 0; i < answer_.priced.size(); ++i) {
      if (answer_.priced[i].cost.verdict == PlanVerdict::Fits) {
        answer_.best.push_back(i);
      }
    }
    std::ranges::stable_sort(answer_.best, {}, [&](size_t i) {
      return objective_of(objective_, answer_.priced[i].cost);
    });
  }

  const PlanSpace& space_;
  PlanObjective objective_;
  const PlanCosts& costs_;
  PlanAnswer answer_;
  // By shape, points that do not fit for certain. No look changes it.
  std::map<decltype(shape_of(PlanPoint())),
           std::vector<std::pair<PlanPoint, PlanVerdict>>>
      unfit_;
  std::set<PlanPoint> met_;
  std::set<PlanPoint> climbed_;  // passes that climb() has looked at
};

}  // namespace

std::vector<PlanPoint> smallest_points(const PlanSpace& space,
                                       const PlanCosts& costs) {
  constexpr size_t kMost = 200;
  std::vector<std::pair<double, PlanPoint>> points;
  for (const PlanPoint& shape : plan_shapes(space)) {
    std::vector<PlanPoint> passes = plan_passes(space, shape);
    std::erase_if(passes,
                  [](const PlanPoint& pass) { return pass.chunks > 1; });
    if (passes.empty()) continue;
    const PlanPoint point = plan_points(space, passes.back()).front();
    points.emplace_back(costs.least(point).bytes, point);
  }
  std::ranges::stable_sort(points, {},
                           [](const auto& each) { return each.first; });
  points.resize(std::min(points.size(), kMost));
  std::vector<PlanPoint> smallest;
  for (const auto& each : points) smallest.push_back(each.second);
  return smallest;
}

double objective_of(PlanObjective objective, const PlanCost& cost) {
  return objective == PlanObjective::StepTime
             ? cost.step.estimate
             : static_cast<double>(cost.most_memory);
}

PlanAnswer search_plans(const PlanSpace& space, PlanObjective objective,
                        const PlanCosts& costs, const SearchBudget& budget) {
  return PlanSearch(space, objective, costs).run(budget);
}

}  // namespace shardplan
