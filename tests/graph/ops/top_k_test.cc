// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace shardplan
