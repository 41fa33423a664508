// SPDX-License-Identifier: Apache-2.0
#include "search/plan_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "base/words.h"

namespace shardplan {
namespace {

// A pass, or one of its points.
struct PlanBranch {
  PlanPoint point;
  int64_t points = 1;  // points in it
  size_t bounds = 0;   // of a pass: the closer bounds computed
  bool is_point = false;
};

auto mesh_shape(const PlanPoint& point) {
  using enum PlanAxis;
  return std::tuple(point.of(Stages), point.of(Sequence), point.of(Tensor),
                    point.experts, point.expert_tensor);
}
// Returns what all points of a shape have in common.
auto shape_of(const PlanPoint& point) {
  return std::pair(mesh_shape(point), point.tokens_over_tensor);
}

// Returns whether `point` needs at least as much memory as `than`, of its
// shape.
bool needs_more_memory(const PlanPoint& point, const PlanPoint& than) {
  return point.remat <= than.remat &&
         point.microbatches * point.data() <= than.microbatches * than.data() &&
         point.chunks >= than.chunks && point.balanced == than.balanced &&
         point.zero <= than.zero &&
         point.of(PlanAxis::Replicas) >= than.of(PlanAxis::Replicas);
}

struct Looked : LookedAt<PlanBranch> {
  std::vector<PricedPlan> priced;
  // Points whose bounds exceed the limit, each with the number it represents.
  std::vector<std::pair<PlanPoint, int64_t>> unfit;
  std::optional<PlanVerdict> known;  // from a point that needs less memory
};

class PlanSearch {
 public:
  PlanSearch(const PlanSpace& space, PlanObjective objective,
             const PlanCosts& costs)
      : space_(space), objective_(objective), costs_(costs) {}

  PlanAnswer run(const SearchBudget& budget, size_t shapes) {
    SearchBudget rest = budget;
    if (costs_.evaluations) {
      const int64_t before = costs_.evaluations();
      rest.spent = [this, before] { return costs_.evaluations() - before; };
    }
    std::vector<Branch<PlanBranch>> roots = take_legal(budget.threads);
    rest.value = climb(rest);
    auto end = search(std::move(roots), rest);
    answer_.looks = end.looks;
    rank();
    // If the best is not proved, it must not depend on how many are listed.
    const auto may_be_better = [&](const Branch<PlanBranch>& left) {
      return left.bound < best().value_or(kNoHeight);
    };
    if (std::ranges::any_of(end.left, may_be_better)) {
      shapes = std::max(shapes, kFewestShapes);
    }
    finish_shapes(rest, shapes, end.left);
    const std::optional<double> best = this->best();
    answer_.lower_bound = best.value_or(kNoHeight);
    for (const Branch<PlanBranch>& left : end.left) {
      answer_.lower_bound = std::min(answer_.lower_bound, left.bound);
      const bool is_open = !best || left.bound < *best;
      (is_open ? answer_.skipped : answer_.worse) += left.item.points;
      if (is_open) answer_.exhausted = false;
    }
    return std::move(answer_);
  }

 private:
  std::optional<double> best() const {
    if (answer_.best.empty()) return std::nullopt;
    return objective_of(objective_, answer_.priced[answer_.best.front()].cost);
  }

  // Refuses whole shapes, and passes of other shapes whose bounds exceed the
  // limit.
  std::vector<Branch<PlanBranch>> take_legal(int threads) {
    struct Found {
      std::optional<PlanCost> refusal;
      std::vector<PlanPoint> passes;
      std::vector<LeastCost> least;  // of each pass; empty if refused
    };
    const std::vector<PlanPoint> shapes = plan_shapes(space_);
    std::vector<Found> found(shapes.size());
    parallel_for(std::ssize(shapes), threads, [&](int64_t i) {
      const auto at = to_size(i);
      found[at].passes = plan_passes(space_, shapes[at]);
      if (found[at].passes.empty()) return;
      found[at].refusal = costs_.refused(shapes[at]);
      if (found[at].refusal) return;
      for (const PlanPoint& pass : found[at].passes) {
        found[at].least.push_back(costs_.least(pass));
      }
    });
    std::vector<Branch<PlanBranch>> branches;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Found& of = found[i];
      if (of.passes.empty()) {
        reject(
            {.reason = "the batch is not divisible by the data-parallel size"},
            shapes[i], 1);
        ++answer_.considered;
        continue;
      }
      if (!of.refusal) legal_.emplace(shape_of(shapes[i]), shapes[i]);
      int64_t refused = 0;
      for (size_t p = 0; p < of.passes.size(); ++p) {
        const PlanPoint& pass = of.passes[p];
        const int64_t points = std::ssize(plan_points(space_, pass));
        answer_.considered += points;
        if (of.refusal) {
          refused += points;
        } else if (is_too_much(of.least[p])) {
          reject({.verdict = PlanVerdict::Unfit}, pass, points);
        } else {
          branches.push_back({bound(of.least[p]), {pass, points, 0}});
        }
      }
      if (of.refusal) reject(*of.refusal, shapes[i], refused);
    }
    return branches;
  }

  // Also searches what is left of the best shapes: until then, the best of a
  // shape is only the best that was met on the way to the overall best.
  void finish_shapes(const SearchBudget& budget, size_t shapes,
                     std::vector<Branch<PlanBranch>>& left) {
    constexpr int64_t kPart = 20;  // of the budget, for each shape
    for (const size_t i : best_of_shapes(answer_, shapes)) {
      const PricedPlan& best = answer_.priced[i];
      const auto first = std::stable_partition(
          left.begin(), left.end(), [&](const Branch<PlanBranch>& branch) {
            return mesh_shape(branch.item.point) != mesh_shape(best.point);
          });
      std::vector<Branch<PlanBranch>> own(first, left.end());
      left.erase(first, left.end());
      SearchBudget of_shape = budget;
      of_shape.value = objective_of(objective_, best.cost);
      if (budget.spent) of_shape.looks = budget.spent() + budget.looks / kPart;
      auto end = search(std::move(own), of_shape);
      left.insert(left.end(), end.left.begin(), end.left.end());
    }
    rank();
  }

  SearchEnd<PlanBranch> search(std::vector<Branch<PlanBranch>> branches,
                               const SearchBudget& budget) {
    return best_first<PlanBranch>(
        std::move(branches), budget,
        [this](const PlanBranch& branch) { return look(branch); },
        [this](const PlanBranch& branch, const Looked& looked) {
          take(branch, looked);
        });
  }

  // Returns, for each number of stages, two shapes without a view of experts:
  // the one with the least tensor parallelism, and the one with the most tensor
  // parallelism inside the fastest link and the least sequence parallelism.
  std::vector<PlanPoint> starts() const {
    std::vector<std::vector<PlanPoint>> by_stages;
    for (const auto& [_, shape] : legal_) {
      if (shape.experts > 1 || shape.of(PlanAxis::Tensor) > space_.domain) {
        continue;
      }
      if (by_stages.empty() || by_stages.back().front().of(PlanAxis::Stages) !=
                                   shape.of(PlanAxis::Stages)) {
        if (by_stages.size() == kStarts) break;
        by_stages.emplace_back();
      }
      by_stages.back().push_back(shape);
    }
    std::vector<PlanPoint> starts;
    // Uses the most micro-batches, and the policy that saves least.
    const auto add = [&](const PlanPoint& shape) {
      const PlanPoint start = plan_passes(space_, shape).back();
      if (!contains(starts, start)) starts.push_back(start);
    };
    for (const std::vector<PlanPoint>& shapes : by_stages) {
      const auto rank = [](const PlanPoint& shape) {
        return std::tuple(shape.of(PlanAxis::Tensor),
                          -shape.of(PlanAxis::Sequence),
                          shape.tokens_over_tensor);
      };
      add(*std::ranges::min_element(shapes, {}, rank));
      add(*std::ranges::max_element(shapes, {}, rank));
    }
    return starts;
  }

  // Returns a value to begin with. Moves from each start to better neighbours
  // as long as there are any, for up to half of the budget. If none of them
  // fits, tries the smallest points.
  std::optional<double> climb(const SearchBudget& budget) {
    const int threads = budget.threads;
    const int64_t before = budget.spent ? budget.spent() : 0;
    const auto is_over = [&] {
      return budget.spent && budget.spent() - before >= budget.looks / 2;
    };
    std::optional<PlanPoint> highest;
    std::optional<double> best;
    // Begin with the lowest start, so that the others may end early.
    const std::vector<PlanPoint> from = starts();
    const std::vector<double> start_heights = heights(from, kNoHeight, threads);
    std::set<std::pair<double, PlanPoint>> lowest_first;
    for (size_t i = 0; i < from.size(); ++i) {
      lowest_first.emplace(start_heights[i], from[i]);
    }
    for (auto [height, at] : lowest_first) {
      for (bool climbs = true; climbs && !is_over();) {
        climbs = false;
        std::vector<PlanPoint> next = plan_neighbours(space_, at);
        std::erase_if(next, [&](const PlanPoint& pass) {
          const LeastCost least = costs_.least(pass);
          return is_too_much(least) || legal_.count(shape_of(pass)) == 0 ||
                 !climbed_.insert(pass).second;
        });
        const std::vector<double> found =
            heights(next, std::min(height, best.value_or(height)), threads);
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
    // Try the other splits of data parallelism of the best pass.
    std::vector<PlanPoint> points = plan_points(space_, *highest);
    std::erase_if(points, [&](const PlanPoint& point) {
      return is_too_much(costs_.least(point)) || met_.count(point) > 0;
    });
    for (const Looked& each : priced(points, threads)) {
      if (each.value) best = std::min(*best, *each.value);
    }
    return best;
  }

  // Looks at all points in parallel, and records what is priced.
  template <typename Look>
  std::vector<Looked> look_at_all(const std::vector<PlanPoint>& points,
                                  int threads, Look look) {
    std::vector<Looked> looked(points.size());
    parallel_for(static_cast<int64_t>(points.size()), threads, [&](int64_t i) {
      const auto at = to_size(i);
      look(points[at], looked[at]);
    });
    for (const Looked& each : looked) {
      for (const PricedPlan& plan : each.priced) note_priced(plan);
    }
    return looked;
  }
  std::vector<Looked> priced(const std::vector<PlanPoint>& points,
                             int threads) {
    return look_at_all(
        points, threads,
        [this](const auto& point, auto& looked) { price(point, looked); });
  }

  static constexpr size_t kStarts = 6;  // numbers of stages
  static constexpr size_t kFewestShapes = 5;
  // The height of a pass that does not fit starts here, and grows with its
  // memory.
  static constexpr double kUnfit = 1e30;
  static constexpr double kNoHeight = std::numeric_limits<double>::infinity();
  // Returns the cost of each pass, its height. Does not price passes that
  // cannot be below `least`.
  std::vector<double> heights(const std::vector<PlanPoint>& passes,
                              double least, int threads) {
    const std::vector<Looked> looked = look_at_all(
        passes, threads, [this, least](const PlanPoint& pass, Looked& to) {
          if (may_be_below(least, pass)) look_at_pass(pass, to);
        });
    std::vector<double> all;
    for (const Looked& each : looked) {
      const PlanCost cost =
          each.priced.empty() ? PlanCost() : each.priced.front().cost;
      const double unfit =
          cost.verdict == PlanVerdict::Illegal
              ? kNoHeight
              : kUnfit * (1 + static_cast<double>(cost.most_memory));
      all.push_back(each.value.value_or(unfit));
    }
    return all;
  }

  bool may_be_below(double value, const PlanPoint& pass) const {
    if (bound(costs_.least(pass)) >= value) return false;
    if (objective_ != PlanObjective::StepTime) return true;
    return std::ranges::all_of(costs_.closer, [&](const auto& closer) {
      const LeastCost cost = closer(pass);
      return !is_too_much(cost) && cost.seconds < value;
    });
  }

  double bound(const LeastCost& cost) const {
    return objective_ == PlanObjective::StepTime ? cost.seconds : cost.bytes;
  }
  bool is_too_much(const LeastCost& cost) const {
    return costs_.limit && cost.bytes > static_cast<double>(*costs_.limit);
  }

  Looked look(const PlanBranch& branch) const {
    Looked looked;
    looked.known = known_of(branch.point);
    if (looked.known) return looked;
    if (branch.is_point) {
      price(branch.point, looked);
    } else if (objective_ != PlanObjective::StepTime ||
               branch.bounds == costs_.closer.size()) {
      look_at_pass(branch.point, looked);
    } else {
      const LeastCost least = costs_.closer[branch.bounds](branch.point);
      if (is_too_much(least)) {
        looked.unfit.emplace_back(branch.point, branch.points);
      } else {
        looked.branches.push_back(
            {bound(least), {branch.point, branch.points, branch.bounds + 1}});
      }
    }
    return looked;
  }

  void look_at_pass(const PlanPoint& pass, Looked& looked) const {
    std::vector<PlanPoint> points = plan_points(space_, pass);
    const PlanPoint first = points.front();
    points.erase(points.begin());
    std::erase_if(points, [&](const PlanPoint& point) {
      const bool is_unfit = is_too_much(costs_.least(point));
      if (is_unfit) looked.unfit.emplace_back(point, 1);
      return is_unfit;
    });
    price(first, looked);
    const PlanCost& cost = looked.priced.front().cost;
    std::vector<std::pair<double, PlanPoint>> others;
    for (const PlanPoint& point : points) {
      const bool is_known =
          objective_ == PlanObjective::StepTime && cost.timed && costs_.beside;
      others.emplace_back(is_known ? costs_.beside(first, point) : 0, point);
    }
    // The next guess is the point with the lowest bound of those that should
    // fit: points of a pass differ only in their state. Fewer devices that
    // share one copy of the weights send less.
    if (cost.verdict == PlanVerdict::Fits && !others.empty()) {
      const double beside =
          static_cast<double>(cost.most_memory) - costs_.least(first).bytes;
      const auto rank = [&](const std::pair<double, PlanPoint>& other) {
        const auto& [least, point] = other;
        const double bytes = beside + costs_.least(point).bytes;
        const bool fits =
            !costs_.limit || bytes <= static_cast<double>(*costs_.limit);
        return std::tuple(fits, least > 0, -least, point.of(PlanAxis::Replicas),
                          point.zero);
      };
      const auto best = std::ranges::max_element(others, {}, rank);
      if (std::get<0>(rank(*best))) {
        price(best->second, looked);
        others.erase(best);
      }
    }
    for (const auto& [least, point] : others) {
      looked.branches.push_back({least, {point, 1, 0, true}});
    }
  }

  void price(const PlanPoint& point, Looked& looked) const {
    looked.priced.push_back({point, costs_.price(point)});
    const PlanCost& cost = looked.priced.back().cost;
    if (cost.verdict != PlanVerdict::Fits) return;
    const double value = objective_of(objective_, cost);
    looked.value = std::min(looked.value.value_or(value), value);
  }

  // Returns the verdict of a point of the same shape that needs less memory and
  // does not fit.
  std::optional<PlanVerdict> known_of(const PlanPoint& point) const {
    const auto of_shape = unfit_.find(shape_of(point));
    if (of_shape == unfit_.end()) return std::nullopt;
    for (const auto& [other, verdict] : of_shape->second) {
      if (needs_more_memory(point, other)) return verdict;
    }
    return std::nullopt;
  }

  void reject(const PlanCost& cost, const PlanPoint& example, int64_t count) {
    for (RejectedPlans& each : answer_.rejected) {
      if (each.verdict == cost.verdict && each.reason == cost.reason) {
        each.count += count;
        return;
      }
    }
    answer_.rejected.push_back({cost.verdict, cost.reason, count, example});
  }
  void take(const PlanBranch& branch, const Looked& looked) {
    for (const auto& [point, count] : looked.unfit) {
      reject({.verdict = PlanVerdict::Unfit}, point, count);
    }
    if (looked.known) {
      reject({.verdict = *looked.known}, branch.point, branch.points);
      return;
    }
    for (const PricedPlan& each : looked.priced) {
      note_priced(each);
      if (each.cost.verdict != PlanVerdict::Fits) {
        reject(each.cost, each.point, 1);
      }
    }
  }

  // Records each plan once, however often it is met.
  void note_priced(const PricedPlan& plan) {
    if (!met_.insert(plan.point).second) return;
    answer_.priced.push_back(plan);
    const PlanVerdict verdict = plan.cost.verdict;
    if (verdict == PlanVerdict::Unfit || verdict == PlanVerdict::MayFit) {
      unfit_[shape_of(plan.point)].emplace_back(plan.point, verdict);
    }
  }

  void rank() {
    answer_.best.clear();
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
  // Points, by shape, that do not fit for certain. Looks do not change it.
  std::map<decltype(shape_of(PlanPoint())),
           std::vector<std::pair<PlanPoint, PlanVerdict>>>
      unfit_;
  // Shapes that are not refused.
  std::map<decltype(shape_of(PlanPoint())), PlanPoint> legal_;
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
  std::ranges::stable_sort(points, {}, &std::pair<double, PlanPoint>::first);
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

std::vector<size_t> best_of_shapes(const PlanAnswer& answer, size_t most) {
  std::vector<size_t> best;
  std::set<decltype(mesh_shape(PlanPoint()))> shapes;
  for (const size_t i : answer.best) {
    if (best.size() == most) break;
    if (shapes.insert(mesh_shape(answer.priced[i].point)).second) {
      best.push_back(i);
    }
  }
  return best;
}

PlanAnswer search_plans(const PlanSpace& space, PlanObjective objective,
                        const PlanCosts& costs, const SearchBudget& budget,
                        size_t shapes) {
  return PlanSearch(space, objective, costs).run(budget, shapes);
}

}  // namespace shardplan
