// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::inferred;
using testing::run;

TEST_CASE("xielu is quadratic above 0 and exponential below") {
  const auto number = [](double x) {
    return make_tensor(Element::F64, {1}, std::vector<double>{x});
  };
  const Tensor x =
      make_tensor(Element::F64, {4}, std::vector<double>{-3, -0.05, 0, 2});
  const auto y = values_of(
      run("xielu", {x, number(0.3), number(-0.4), number(0.5), number(-0.1)},
          {}, Arithmetic::F64));
  const double positive = std::log1p(std::exp(0.3));
  const double negative = 0.5 + std::log1p(std::exp(-0.4));
  const auto below = [&](double v) {
    return (std::expm1(std::fmin(v, -0.1)) - v) * negative + 0.5 * v;
  };
  CHECK(y[0] == doctest::Approx(below(-3)));
  CHECK(y[1] == doctest::Approx(below(-0.05)));
  CHECK(y[2] == doctest::Approx(below(0)));
  CHECK(y[3] == doctest::Approx(positive * 4 + 1));
}

TEST_CASE("parameters of xielu that are more than a number are SP015") {
  CHECK(inferred("xielu", {{4, 6}, {1}, {6}, {}, {}}, {}).starts_with("SP015"));
  CHECK(inferred("xielu", {{4, 6}, {1}, {1}, {}, {}}, {}) == "[4, 6]");
}

}  // namespace

}  // namespace shardplan
