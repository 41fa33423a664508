// SPDX-License-Identifier: Apache-2.0
// The search against a look at every point of small spaces, with costs that are
// drawn: all that is asked of costs is what PlanCosts says of them.
#include "search/plan_search.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/words.h"
#include "core/mesh.h"
#include "tests/support/thinned.h"

namespace shardplan {
namespace {

std::vector<PlanPoint> all_points(const PlanSpace& space) {
  std::vector<PlanPoint> points;
  for (const PlanPoint& shape : plan_shapes(space)) {
    for (const PlanPoint& pass : plan_passes(space, shape)) {
      const auto own = plan_points(space, pass);
      points.insert(points.end(), own.begin(), own.end());
    }
  }
  return points;
}

PlanSpace drawn_space(std::mt19937& random) {
  const auto of = [&](const std::vector<int64_t>& values) {
    return values[random() % values.size()];
  };
  PlanSpace space;
  space.devices = of({1, 2, 4, 6, 8});
  space.domain = of({2, 8});
  space.batch = of({4, 8, 12});
  space.layers = of({1, 4, 6});
  space.head = static_cast<double>(of({0, 1, 5})) / 2;
  space.experts = of({0, 0, 4});
  const std::vector<const char*> names = {"any", "megatron", "torch", "jax"};
  space.features = framework_features(names[random() % names.size()]);
  for (const auto name : space.features.remats) space.remats.emplace_back(name);
  using enum PlanAxis;
  for (const PlanAxis axis : {Stages, Replicas, Shards, Sequence, Tensor}) {
    const bool is_there = (axis != Stages || space.features.stages) &&
                          (axis != Shards || space.features.shards);
    if (is_there && random() % 4 != 0) space.over.push_back(axis);
  }
  if (!contains(space.over, Shards) && !contains(space.over, Replicas)) {
    space.over.push_back(Replicas);
  }
  return space;
}

// Numbers that follow from a point's text alone.
class DrawnCosts {
 public:
  DrawnCosts(const PlanSpace& space, unsigned seed)
      : space_(space), seed_(seed) {}

  // What is held grows with copies, with sequences at once and with what a
  // policy keeps.
  double memory(const PlanPoint& point) const {
    const auto shape = static_cast<double>(point.of(PlanAxis::Stages) *
                                           point.of(PlanAxis::Tensor) *
                                           point.of(PlanAxis::Sequence));
    const auto sequences =
        static_cast<double>(space_.batch / point.data() / point.microbatches);
    const auto copies = static_cast<double>(point.of(PlanAxis::Replicas));
    const auto keeps = static_cast<double>(space_.remats.size() - point.remat);
    return (30 * copies + 60 * (point.zero > 0 ? 1 : copies)) /
               static_cast<double>(space_.devices) +
           sequences * keeps * 4 / shape + static_cast<double>(point.chunks);
  }
  double seconds(const PlanPoint& point) const {
    return least(point) + part(key(point), 40);
  }
  // Of every point of the pass.
  double least(const PlanPoint& point) const {
    PlanPoint pass = point;
    pass.of(PlanAxis::Shards) = point.data();
    pass.of(PlanAxis::Replicas) = 1;
    pass.zero = 0;
    pass.innermost = PlanAxis::Tensor;
    return 50 + part(key(pass), 100);
  }
  bool is_illegal(const PlanPoint& shape) const {
    return part("legal" + std::to_string(shape.of(PlanAxis::Tensor)) +
                    std::to_string(shape.of(PlanAxis::Sequence)),
                6) < 1;
  }
  PlanCost price(const PlanPoint& point) const {
    PlanCost cost;
    if (is_illegal(point)) {
      cost.reason = "drawn";
      return cost;
    }
    cost.most_memory = static_cast<int64_t>(1000 * memory(point));
    cost.verdict =
        cost.most_memory <= limit() ? PlanVerdict::Fits : PlanVerdict::MayFit;
    cost.timed = true;
    cost.step.estimate = seconds(point);
    return cost;
  }
  PlanCosts costs() const {
    PlanCosts costs;
    costs.refused = [this](const PlanPoint& shape) {
      return is_illegal(shape) ? std::optional(price(shape)) : std::nullopt;
    };
    costs.least = [this](const PlanPoint& point) {
      return LeastCost{least(point) * 0.7, 900 * memory(point)};
    };
    costs.closer = {[this](const PlanPoint& pass) {
      return LeastCost{least(pass) * 0.9, 0};
    }};
    costs.price = [this](const PlanPoint& point) { return price(point); };
    costs.beside = [this](const PlanPoint&, const PlanPoint& other) {
      return least(other) + part("more", 1) - 1;
    };
    costs.limit = limit();
    return costs;
  }
  int64_t limit() const {
    return 20'000 + static_cast<int64_t>(part("limit", 40'000));
  }

 private:
  std::string key(const PlanPoint& point) const {
    std::string text = space_.remats[point.remat];
    for (const int64_t size : point.sizes) text += " " + std::to_string(size);
    for (const int64_t number :
         {point.experts, point.expert_tensor, point.microbatches, point.chunks,
          int64_t{point.balanced}, int64_t{point.tokens_over_tensor},
          int64_t{point.zero}, static_cast<int64_t>(point.innermost)}) {
      text += " " + std::to_string(number);
    }
    return text;
  }
  double part(const std::string& of, double most) const {
    // splitmix64: seeding a larger generator for each number takes long.
    uint64_t x = std::hash<std::string>()(of) + seed_ * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return most * static_cast<double>((x ^ (x >> 31U)) >> 11U) * 0x1p-53;
  }

  const PlanSpace& space_;
  unsigned seed_;
};

TEST_CASE("plan search: as good as a look at every point") {
  int64_t priced = 0;
  int64_t considered = 0;
  // With SHARDPLAN_PLAN_CASES=10000 half a minute.
  const char* const asked = std::getenv("SHARDPLAN_PLAN_CASES");
  const auto cases =
      static_cast<unsigned>(asked == nullptr ? 1500 : std::atoi(asked));
  testing::Thinned rows{5};
  for (unsigned seed = 0; seed < cases; ++seed) {
    if (rows.skips()) continue;
    std::mt19937 random(seed);
    const PlanSpace space = drawn_space(random);
    const DrawnCosts drawn(space, seed);
    const std::vector<PlanPoint> points = all_points(space);
    std::optional<double> best;
    for (const PlanPoint& point : points) {
      const PlanCost cost = drawn.price(point);
      if (cost.verdict != PlanVerdict::Fits) continue;
      best = std::min(best.value_or(cost.step.estimate), cost.step.estimate);
    }
    CAPTURE(seed);
    const PlanAnswer answer = search_plans(space, PlanObjective::StepTime,
                                           drawn.costs(), SearchBudget());
    REQUIRE(answer.best.empty() == !best.has_value());
    if (best) {
      const PlanCost& found = answer.priced[answer.best.front()].cost;
      REQUIRE(found.step.estimate == *best);
      REQUIRE(answer.lower_bound == *best);
    }
    priced += static_cast<int64_t>(answer.priced.size());
    considered += static_cast<int64_t>(points.size());
    if (seed % 500 >= rows.nth) continue;
    SearchBudget threads;
    threads.threads = 3;
    const PlanAnswer again =
        search_plans(space, PlanObjective::StepTime, drawn.costs(), threads);
    REQUIRE(again.priced.size() == answer.priced.size());
    for (size_t i = 0; i < again.priced.size(); ++i) {
      CHECK(again.priced[i].point == answer.priced[i].point);
    }
  }
  CHECK(priced < considered);
}

TEST_CASE("plan space: every point is on all devices, once") {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const PlanSpace space = drawn_space(random);
    std::vector<PlanPoint> points = all_points(space);
    std::ranges::sort(points);
    CHECK(std::ranges::adjacent_find(points) == points.end());
    for (const PlanPoint& point : points) {
      REQUIRE(mesh_of(point).devices() == space.devices);
      REQUIRE(space.batch % (point.data() * point.microbatches) == 0);
      if (point.experts > 1) {
        REQUIRE(mesh_of(point).has_view("experts"));
      }
      for (const PlanAxis axis : {PlanAxis::Stages, PlanAxis::Shards}) {
        if (!contains(space.over, axis)) REQUIRE(point.of(axis) == 1);
      }
    }
  }
}

TEST_CASE("plan space: neighbours are passes of the space") {
  std::mt19937 random(11);
  testing::Thinned rows{10};
  for (int i = 0; i < 200; ++i) {
    const PlanSpace space = drawn_space(random);
    if (rows.skips()) continue;
    std::set<PlanPoint> all;
    for (const PlanPoint& shape : plan_shapes(space)) {
      const auto passes = plan_passes(space, shape);
      all.insert(passes.begin(), passes.end());
    }
    for (const PlanPoint& pass : all) {
      for (const PlanPoint& next : plan_neighbours(space, pass)) {
        REQUIRE(all.count(next) == 1);
        REQUIRE(mesh_of(next).devices() == space.devices);
      }
    }
  }
}

TEST_CASE("plan space: stages beside the embedding and the head are shorter") {
  PlanSpace space;
  space.layers = 126;
  space.head = 0.65;  // Llama 3.1 405B
  PlanPoint point;
  point.of(PlanAxis::Stages) = 16;
  point.balanced = true;
  point.chunks = 8;
  // As Meta trained it: 126 layers, the embedding and the head are 16 times 8.
  std::vector<int64_t> as_trained(16, 8);
  as_trained.front() = as_trained.back() = 7;
  CHECK(stage_layers(space, point) == as_trained);
  // Even stages are as good where the head costs less than a layer.
  point.chunks = 1;
  CHECK(stage_layers(space, point).empty());
  // A head of as much work as four layers (Gemma 2B) leaves the last stage few.
  space.layers = 18;
  space.head = 4;
  point.of(PlanAxis::Stages) = 2;
  CHECK(stage_layers(space, point) == std::vector<int64_t>{11, 7});
  point.balanced = false;
  CHECK(stage_layers(space, point).empty());
}

TEST_CASE("plan space: stages have every layer, and the slowest is no slower") {
  std::mt19937 random(3);
  int64_t balanced = 0;
  for (int i = 0; i < 2000; ++i) {
    PlanSpace space;
    space.layers = 1 + static_cast<int64_t>(random() % 130);
    space.head = static_cast<double>(random() % 60) / 10;
    PlanPoint point;
    point.of(PlanAxis::Stages) = 2 + static_cast<int64_t>(random() % 20);
    point.chunks = 1 + static_cast<int64_t>(random() % 4);
    point.balanced = true;
    const std::vector<int64_t> layers = stage_layers(space, point);
    if (layers.empty()) continue;
    ++balanced;
    REQUIRE(std::ssize(layers) == point.of(PlanAxis::Stages));
    REQUIRE(std::accumulate(layers.begin(), layers.end(), int64_t{0}) ==
            space.layers);
    REQUIRE(std::ranges::min(layers) >= 1);
    if (space.layers % (point.of(PlanAxis::Stages) * point.chunks) != 0) {
      continue;
    }
    const auto even =
        static_cast<double>(space.layers / point.of(PlanAxis::Stages));
    const double slowest =
        std::max(static_cast<double>(std::ranges::max(layers)),
                 static_cast<double>(layers.back()) + space.head);
    REQUIRE(slowest < even + space.head);
  }
  CHECK(balanced > 500);
}

}  // namespace
}  // namespace shardplan
