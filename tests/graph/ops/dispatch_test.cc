// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

Attributes routed(double experts) { return {{"experts", experts}}; }
Attributes routed(double experts, double capacity) {
  return {{"experts", experts}, {"capacity", capacity}};
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

}  // namespace
}  // namespace shardplan
