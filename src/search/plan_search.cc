// SPDX-License-Identifier: Apache-2.0
#include "search/plan_search.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace shardplan {
namespace {

struct PlanBranch {
  enum class Of : uint8_t { Shape, Pass, RefinedPass, Point } of = Of::Shape;
  PlanPoint point;
  int64_t points = 1;  // in it
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
        roots.push_back({*least, {PlanBranch::Of::Shape, shape, points}});
      } else {
        reject_unfit(passes.front(), points);
      }
    }
    auto end = best_first<PlanBranch>(
        std::move(roots), budget,
        [this](const PlanBranch& branch) { return look(branch); },
        [this](const PlanBranch& branch, const Looked& looked) {
          take(branch, looked);
        });
    answer_.lower_bound = end.lower_bound;
    for (const Branch<PlanBranch>& left : end.left) {
      answer_.worse += left.item.points;
      if (!end.value || left.bound < *end.value) answer_.exhausted = false;
    }
    rank();
    return std::move(answer_);
  }

 private:
  struct Looked : LookedAt<PlanBranch> {
    std::optional<PlanCost> cost;
    std::vector<PlanPoint> unfit;  // passes that are too much in any case
    std::optional<PlanVerdict> known;  // by a point that holds less
  };

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
    switch (branch.of) {
      case PlanBranch::Of::Pass: {
        PlanBranch refined = branch;
        refined.of = PlanBranch::Of::RefinedPass;
        const double least = objective_ == PlanObjective::StepTime
                                 ? costs_.least_seconds(branch.point)
                                 : 0;
        looked.branches.push_back({least, refined});
        break;
      }
      case PlanBranch::Of::RefinedPass:
        look_at_pass(branch.point, looked);
        break;
      default:
        price(branch.point, looked);
    }
    return looked;
  }

  void look_at_shape(const PlanPoint& shape, Looked& looked) const {
    looked.cost = costs_.refused(shape);
    if (looked.cost) return;
    for (const PlanPoint& pass : plan_passes(space_, shape)) {
      const LeastCost least = costs_.least(pass);
      if (is_too_much(least)) {
        looked.unfit.push_back(pass);
        continue;
      }
      looked.branches.push_back(
          {bound(least), {PlanBranch::Of::Pass, pass, points_of_pass(pass)}});
    }
  }

  void look_at_pass(const PlanPoint& pass, Looked& looked) const {
    const std::vector<PlanPoint> points = plan_points(space_, pass);
    price(points.front(), looked);
    const double least = objective_ == PlanObjective::StepTime
                             ? looked.cost->least_of_pass
                             : 0;
    for (size_t i = 1; i < points.size(); ++i) {
      looked.branches.push_back(
          {least, {PlanBranch::Of::Point, points[i], 1}});
    }
  }

  void price(const PlanPoint& point, Looked& looked) const {
    looked.cost = costs_.price(point);
    if (looked.cost->verdict == PlanVerdict::Fits) {
      looked.value = objective_of(objective_, *looked.cost);
    }
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
    for (const PlanPoint& pass : looked.unfit) {
      reject_unfit(pass, points_of_pass(pass));
    }
    if (looked.known) {
      reject_unfit(branch.point, branch.points, *looked.known);
      return;
    }
    if (!looked.cost) return;
    const PlanCost& cost = *looked.cost;
    if (branch.of == PlanBranch::Of::Shape) {
      reject(cost, branch.point, branch.points);
      return;
    }
    PlanPoint point = branch.point;
    if (branch.of == PlanBranch::Of::RefinedPass) {
      point = plan_points(space_, point).front();
    }
    answer_.priced.push_back({point, cost});
    if (cost.verdict == PlanVerdict::Fits) return;
    reject(cost, point, 1);
    if (cost.verdict != PlanVerdict::Illegal) {
      unfit_[shape_of(point)].emplace_back(point, cost.verdict);
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
};

}  // namespace

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
