// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

TEST_CASE("take gives the numbers of a row that its indices name") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {2, 4}, 1);
    const double which[] = {3, 0, 0, 1, 2, 3};
    const Tensor indices = make_tensor(element_of(arithmetic), {2, 3}, which);
    const std::vector<double> all = values_of(x);
    const std::vector<double> got =
        values_of(run("take", {x, indices}, {}, arithmetic));
    REQUIRE(got.size() == 6);
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i] == all[i / 3 * 4 + static_cast<size_t>(which[i])]);
    }
  }
}

TEST_CASE("the numbers of top_k are a row's largest") {
  for (const Arithmetic arithmetic : kArithmetics) {
    const Tensor x = numbers(arithmetic, {3, 8}, 2);
    const Tensor indices = run("top_k", {x}, {{"k", 3.0}}, arithmetic);
    const std::vector<double> best =
        values_of(run("take", {x, indices}, {}, arithmetic));
    std::vector<double> all = values_of(x);
    for (size_t row = 0; row < 3; ++row) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(row * 8);
      std::sort(first, first + 8, std::greater<>());
      CHECK(std::equal(first, first + 3,
                       best.begin() + static_cast<ptrdiff_t>(row * 3)));
    }
  }
}

TEST_CASE("a device gives zeros for what it lacks, NaN for what is nowhere") {
  const auto fit = fitted("take", {{4}, {5}}, {});
  CHECK(fit.rule.factors == std::vector<Factor>{{5}, {4, FactorKind::Sum}});
  const double which[] = {1, 3, 4, -1, 0.5};
  const double row[] = {10, 11, 12, 13};
  for (const Arithmetic arithmetic : kArithmetics) {
    const Element element = element_of(arithmetic);
    RunContext context;
    context.arithmetic = arithmetic;
    context.rule = &fit.rule;
    context.range = {{0, 2}, {5, 2}};
    const std::vector<Tensor> operands = {
        slice(make_tensor(element, {4}, row), 0, 2, 4),
        make_tensor(element, {5}, which)};
    const std::vector<double> got =
        values_of(fit.op->run(operands, {}, context));
    CHECK(got[0] == 0);
    CHECK(got[1] == 13);
    for (size_t i = 2; i < 5; ++i) {
      if (arithmetic == Arithmetic::Field) {
        CHECK(got[i] == 0);
      } else {
        CHECK(std::isnan(got[i]));
      }
    }
  }
}

TEST_CASE("rows and indices that are not alike are SP015") {
  CHECK(inferred("take", {{2, 4}, {2, 3}}, {}) == "[2, 3]");
  CHECK(inferred("take", {{2, 0}, {2, 0}}, {}) == "[2, 0]");
  CHECK(inferred("take", {{2, 4}, {3, 4}}, {}) ==
        "SP015 cannot take from [2, 4] by indices [3, 4]");
  CHECK(inferred("take", {{2, 4}, {4}}, {}) ==
        "SP015 cannot take from [2, 4] by indices [4]");
  CHECK(inferred("take", {{}, {}}, {}) ==
        "SP015 cannot take from [] by indices []");
}

}  // namespace
}  // namespace shardplan
