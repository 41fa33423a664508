// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "graph/composites.h"
#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

std::vector<double> chosen(const std::vector<double>& row, double k,
                           Arithmetic arithmetic) {
  const Tensor x = make_tensor(element_of(arithmetic),
                               {static_cast<int64_t>(row.size())}, row);
  return values_of(run("top_k", {x}, {{"k", k}}, arithmetic));
}

TEST_CASE("the largest come first; of equal ones, the first") {
  for (const Arithmetic arithmetic : kArithmetics) {
    CHECK(chosen({3, 9, 1, 9, 5}, 3, arithmetic) ==
          std::vector<double>{1, 3, 4});
    CHECK(chosen({7, 7, 7}, 2, arithmetic) == std::vector<double>{0, 1});
    CHECK(chosen({4}, 1, arithmetic) == std::vector<double>{0});
    CHECK(chosen({1, 2, 3}, 3, arithmetic) == std::vector<double>{2, 1, 0});
  }
}

TEST_CASE("a NaN counts as larger than infinity") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const Arithmetic arithmetic : {Arithmetic::F32, Arithmetic::F64}) {
    CHECK(chosen({-inf, inf, nan, 0, nan}, 5, arithmetic) ==
          std::vector<double>{2, 4, 1, 3, 0});
  }
}

TEST_CASE("every row chooses for itself") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {3, 4, 6}, 1);
    const Tensor all = run("top_k", {x}, {{"k", 2.0}}, arithmetic);
    REQUIRE(all.shape == Shape{3, 4, 2});
    for (int64_t i = 0; i < 3; ++i) {
      CHECK(bitwise_equal(
          slice(all, 0, i, i + 1),
          run("top_k", {slice(x, 0, i, i + 1)}, {{"k", 2.0}}, arithmetic)));
    }
  }
}

TEST_CASE("rows are whole, and a choice is a decision") {
  const auto fit = fitted("top_k", {{4, 6}}, {{"k", 2.0}});
  CHECK(fit.op->is_decision);
  CHECK(fit.rule.factors == std::vector<Factor>{{4},
                                                {6, FactorKind::Whole},
                                                {2, FactorKind::Whole}});
  CHECK(fit.rule.operands[0] == std::vector<DimFactors>{{0}, {1}});
  CHECK(fit.rule.result == std::vector<DimFactors>{{0}, {2}});
}

TEST_CASE("no rows have no choices") {
  const Tensor none = make_tensor(Element::F32, {0, 4});
  CHECK(run("top_k", {none}, {{"k", 2.0}}, Arithmetic::F32).shape ==
        Shape{0, 2});
}

TEST_CASE("a k that is not there is SP015") {
  const auto text = [](const Shape& shape, double k) {
    return inferred("top_k", {shape}, {{"k", k}});
  };
  CHECK(text({4, 6}, 0) ==
        "SP015 cannot choose 0 along the last dimension of [4, 6]");
  CHECK(text({4, 6}, 7) ==
        "SP015 cannot choose 7 along the last dimension of [4, 6]");
  CHECK(text({}, 1) == "SP015 cannot choose 1 along the last dimension of []");
  CHECK(text({4, 6}, 1.5) == "SP015 `k` is not an integer");
}

TEST_CASE("a mask of choices keeps the rows of those that are named") {
  const double rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const double which[] = {2, 0, 1, 1};
  for (const Arithmetic arithmetic : kArithmetics) {
    const double masked = arithmetic == Arithmetic::Field
                              ? 0
                              : -std::numeric_limits<double>::infinity();
    const Element element = element_of(arithmetic);
    const std::vector<Tensor> operands = {make_tensor(element, {2, 3, 2}, rows),
                                          make_tensor(element, {2, 2}, which)};
    CHECK(values_of(run("choice_mask", operands, {}, arithmetic)) ==
          std::vector<double>{1, 2, masked, masked, 5, 6, masked, masked, 9, 10,
                              masked, masked});
  }
  CHECK(inferred("choice_mask", {{2, 3, 2}, {3, 2}}, {}) ==
        "SP015 cannot mask [2, 3, 2] by choices [3, 2]");
  CHECK(inferred("choice_mask", {{2}, {}}, {}) ==
        "SP015 cannot mask [2] by choices []");
}

TEST_CASE("groups may be on several devices, each with its own choices") {
  const auto fit = fitted("choice_mask", {{4, 8, 2}, {4, 3}}, {});
  CHECK(fit.rule.factors ==
        std::vector<Factor>{{4}, {8}, {2}, {3, FactorKind::Whole}});
  CHECK(fit.rule.operands[0] == std::vector<DimFactors>{{0}, {1}, {2}});
  CHECK(fit.rule.operands[1] == std::vector<DimFactors>{{0}, {3}});
  CHECK(fit.rule.result == fit.rule.operands[0]);
}

Attributes routed(double experts) { return {{"experts", experts}}; }
Attributes routed(double experts, double capacity) {
  return {{"experts", experts}, {"capacity", capacity}};
}

TEST_CASE("shares of experts chosen one after the other") {
  const Tensor scores =
      make_tensor(Element::F64, {1, 4}, std::vector<double>{2, 1.9, -2, 1.5});
  const Tensor choices =
      make_tensor(Element::F64, {1, 2}, std::vector<double>{0, 1});
  const auto shares = [&](double jitter) {
    return values_of(run("mixer_shares", {scores, choices},
                         {{"jitter", jitter}}, Arithmetic::F64));
  };
  // 1.9 is 0.05 of 2 below it, 1.5 is 0.25 of 2 and 0.21 of 1.9.
  CHECK(shares(0.01) == std::vector<double>{1, 1});
  CHECK(shares(0.05)[0] == doctest::Approx(1 / (1 + std::exp(-0.1))));
  CHECK(shares(0.05)[1] == 1);
  CHECK(shares(0.11)[0] == doctest::Approx(1 / (1 + std::exp(-0.1))));
  CHECK(shares(0.11)[1] == doctest::Approx(1 / (1 + std::exp(-0.4))));
  // What was chosen before is not among the others.
  CHECK(shares(5)[1] ==
        doctest::Approx(1 / (1 + std::exp(-3.9) + std::exp(-0.4))));
  CHECK(inferred("mixer_shares", {{2, 4}, {2, 5}}, {{"jitter", 0.1}})
            .starts_with("SP015 cannot compute shares of "));
}

TEST_CASE("dispatch brings tokens to the experts that they chose") {
  const double rows[] = {10, 11, 20, 21, 30, 31};
  const double which[] = {1, 0, 1, 2, 1, 0};
  for (const Arithmetic arithmetic : kArithmetics) {
    const Element element = element_of(arithmetic);
    const Tensor x = make_tensor(element, {3, 2}, rows);
    const Tensor choices = make_tensor(element, {3, 2}, which);
    CHECK(values_of(run("dispatch", {x, choices}, routed(3), arithmetic)) ==
          std::vector<double>{10, 11, 30, 31, 0, 0,    // expert 0
                              10, 11, 20, 21, 30, 31,  // expert 1
                              20, 21, 0, 0, 0, 0});
    CHECK(values_of(run("dispatch", {x, choices}, routed(3, 1), arithmetic)) ==
          std::vector<double>{10, 11, 10, 11, 20, 21});
  }
}

TEST_CASE("combine adds up what experts made of a token") {
  // Of 2 experts with 2 places each, 3 tokens and a width of 1.
  const double made[] = {1, 2, 3, 4};
  const double which[] = {0, 1, 1, 0, 1, 1};
  const double weight[] = {10, 100, 1, 1000, 7, 7};
  for (const Arithmetic arithmetic : kArithmetics) {
    const Element element = element_of(arithmetic);
    const std::vector<Tensor> operands = {make_tensor(element, {2, 2, 1}, made),
                                          make_tensor(element, {3, 2}, which),
                                          make_tensor(element, {3, 2}, weight)};
    // The third token finds no place with its expert.
    CHECK(values_of(run("combine", operands, {}, arithmetic)) ==
          std::vector<double>{310, 2004, 0});
    CHECK(values_of(run("combine", {operands[0], operands[1]}, {},
                        arithmetic)) == std::vector<double>{4, 6, 0});
  }
}

TEST_CASE("without dropping, combining what was dispatched weighs tokens") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {2, 5, 3}, 1);
    const Tensor choices = run("top_k", {numbers(arithmetic, {2, 5, 4}, 2)},
                               {{"k", 2.0}}, arithmetic);
    const Tensor weights = numbers(arithmetic, {2, 5, 2}, 3);
    const Tensor brought = run("dispatch", {x, choices}, routed(4), arithmetic);
    const Tensor got =
        run("combine", {brought, choices, weights}, {}, arithmetic);
    Attributes last{{"dims", std::vector<int64_t>{-1}}};
    const Tensor wanted =
        run("multiply", {x, run("sum", {weights}, last, arithmetic)}, {},
            arithmetic);
    if (arithmetic == Arithmetic::Field) {
      CHECK(bitwise_equal(got, wanted));
      continue;
    }
    const std::vector<double> a = values_of(got);
    const std::vector<double> b = values_of(wanted);
    for (size_t i = 0; i < a.size(); ++i) {
      CHECK(std::abs(a[i] - b[i]) <= 1e-5);
    }
  }
}

TEST_CASE("a device builds its own experts' places, and adds their rows") {
  const auto out = fitted("dispatch", {{2, 6, 4}, {2, 6, 3}}, routed(8));
  CHECK(out.result == Shape{8, 2, 6, 4});
  CHECK(out.rule.factors == std::vector<Factor>{{8},
                                                {2},
                                                {6, FactorKind::Whole},
                                                {3, FactorKind::Whole},
                                                {6, FactorKind::Whole},
                                                {4}});
  CHECK(out.rule.operands[0] == std::vector<DimFactors>{{1}, {2}, {5}});
  CHECK(out.rule.operands[1] == std::vector<DimFactors>{{1}, {2}, {3}});
  CHECK(out.rule.result == std::vector<DimFactors>{{0}, {1}, {4}, {5}});
  const auto back = fitted("combine", {{8, 2, 6, 4}, {2, 6, 3}, {2, 6, 3}}, {});
  CHECK(back.rule.factors[0] == Factor{8, FactorKind::Sum});
  CHECK(back.rule.operands[0] == out.rule.result);
  CHECK(back.rule.operands[2] == out.rule.operands[1]);
  CHECK(back.rule.result == out.rule.operands[0]);
}

TEST_CASE("groups of a sequence have places of their own") {
  // Two groups of two tokens; each expert has two places for each group.
  const double rows[] = {1, 2, 3, 4};
  const double which[] = {1, 1, 0, 1};
  Attributes two = routed(2);
  two["groups"] = 2.0;
  for (const Arithmetic arithmetic : kArithmetics) {
    const Element element = element_of(arithmetic);
    const Tensor x = make_tensor(element, {4, 1}, rows);
    const Tensor choices = make_tensor(element, {4, 1}, which);
    const Tensor sent = run("dispatch", {x, choices}, two, arithmetic);
    CHECK(sent.shape == Shape{2, 4, 1});
    CHECK(values_of(sent) == std::vector<double>{0, 0, 3, 0, 1, 2, 4, 0});
    CHECK(values_of(run("combine", {sent, choices}, {{"groups", 2.0}},
                        arithmetic)) == std::vector<double>{1, 2, 3, 4});
  }
  // A device may have some of the groups.
  const auto out = fitted("dispatch", {{2, 6, 4}, {2, 6, 3}},
                          {{"experts", 8.0}, {"groups", 2.0}});
  CHECK(out.rule.factors[2] == Factor{2});
  CHECK(out.rule.operands[0] == std::vector<DimFactors>{{1}, {2, 3}, {6}});
  CHECK(out.rule.result == std::vector<DimFactors>{{0}, {1}, {2, 5}, {6}});
  CHECK(inferred("dispatch", {{2, 6, 4}, {2, 6, 3}},
                 {{"experts", 8.0}, {"groups", 4.0}}) ==
        "SP015 4 groups do not divide 6 tokens and a capacity of 6");
  CHECK(inferred("combine", {{8, 2, 6, 4}, {2, 6, 3}}, {{"groups", 4.0}}) ==
        "SP015 4 groups do not divide 6 tokens and a capacity of 6");
}

TEST_CASE("no capacity and no tokens have results") {
  const Tensor x = numbers(Arithmetic::F32, {3, 2}, 1);
  const Tensor choices = make_tensor(Element::F32, {3, 1});
  const Tensor none =
      run("dispatch", {x, choices}, routed(2, 0), Arithmetic::F32);
  CHECK(none.shape == Shape{2, 0, 2});
  CHECK(values_of(run("combine", {none, choices, choices}, {},
                      Arithmetic::F32)) == std::vector<double>(6));
  CHECK(inferred("dispatch", {{0, 2}, {0, 1}}, routed(2)) == "[2, 0, 2]");
}

TEST_CASE("what cannot be dispatched or combined is SP015") {
  CHECK(inferred("dispatch", {{4, 2}, {3, 2}}, routed(2)) ==
        "SP015 cannot dispatch [4, 2] by choices [3, 2]");
  CHECK(inferred("dispatch", {{2}, {2}}, routed(2)) ==
        "SP015 cannot dispatch [2] by choices [2]");
  CHECK(inferred("dispatch", {{4, 2}, {4, 2}}, routed(0)) ==
        "SP015 0 experts of capacity 4");
  CHECK(inferred("dispatch", {{4, 2}, {4, 2}}, routed(2, -1)) ==
        "SP015 2 experts of capacity -1");
  CHECK(inferred("dispatch", {{4, 2}, {4, 2}}, routed(2, 0.5)) ==
        "SP015 `capacity` is not an integer");
  CHECK(inferred("dispatch", {{4, 2}, {4, 2}}, routed(1e15, 1e15)) ==
        "SP015 the result [1000000000000000, 1000000000000000, 2] has too "
        "many elements");
  CHECK(inferred("combine", {{2, 3, 4, 8}, {3, 5, 2}, {3, 5, 2}}, {}) ==
        "[3, 5, 8]");
  CHECK(inferred("combine", {{2, 3, 4, 8}, {2, 5, 2}, {2, 5, 2}}, {}) ==
        "SP015 cannot combine [2, 3, 4, 8], [2, 5, 2] and [2, 5, 2]");
  CHECK(inferred("combine", {{2, 4, 8}, {5, 2}, {5, 1}}, {}) ==
        "SP015 cannot combine [2, 4, 8], [5, 2] and [5, 1]");
}

std::vector<int64_t> slots(const std::vector<ExpertPlace>& places) {
  std::vector<int64_t> result;
  for (const ExpertPlace& place : places) result.push_back(place.slot);
  return result;
}

TEST_CASE("routing: places are taken in order of the token, then the choice") {
  const double choices[] = {2, 0, 0, 2, 2, 1};
  const Tensor x = make_tensor(Element::F32, {3, 2}, choices);
  const std::vector<ExpertPlace> places = places_of(x, 3, 3);
  CHECK(slots(places) == std::vector<int64_t>{0, 0, 1, 1, 2, 0});
  for (size_t i = 0; i < places.size(); ++i) {
    CHECK(places[i].expert == static_cast<int64_t>(choices[i]));
  }
  CHECK(count_dropped(x, 3, 3) == 0);
}

TEST_CASE("routing: beyond the capacity, choices are dropped") {
  const double choices[] = {2, 0, 0, 2, 2, 1};
  const Tensor x = make_tensor(Element::F64, {3, 2}, choices);
  CHECK(slots(places_of(x, 3, 1)) == std::vector<int64_t>{0, 0, -1, -1, -1, 0});
  CHECK(count_dropped(x, 3, 1) == 3);
  CHECK(count_dropped(x, 3, 2) == 1);
  CHECK(count_dropped(x, 3, 0) == 6);
}

TEST_CASE("routing: every sequence has places of its own") {
  const double choices[] = {0, 0, 1, 0, 0, 0};
  const Tensor x = make_tensor(Element::F64, {3, 2, 1}, choices);
  CHECK(slots(places_of(x, 2, 2)) == std::vector<int64_t>{0, 1, 0, 0, 0, 1});
  CHECK(count_dropped(x, 2, 1) == 2);
}

TEST_CASE("routing: what is not an expert takes no place") {
  const double choices[] = {-1, 2, 0.5,
                            std::numeric_limits<double>::quiet_NaN(), 1};
  const Tensor x = make_tensor(Element::F64, {5, 1}, choices);
  const std::vector<ExpertPlace> places = places_of(x, 2, 5);
  CHECK(slots(places) == std::vector<int64_t>{-1, -1, -1, -1, 0});
  CHECK(places[0].expert == -1);
  CHECK(count_dropped(x, 2, 5) == 4);
}

TEST_CASE("routing: choices need not be row-major, nor be there") {
  const double choices[] = {0, 1, 1, 1};
  const Tensor x = make_tensor(Element::F64, {2, 2}, choices);
  const int order[] = {1, 0};
  CHECK(slots(places_of(permuted(x, order), 2, 4)) ==
        std::vector<int64_t>{0, 0, 1, 2});
  CHECK(places_of(make_tensor(Element::F32, {2, 0, 3}), 2, 4).empty());
}

}  // namespace

}  // namespace shardplan
