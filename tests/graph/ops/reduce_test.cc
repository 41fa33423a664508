// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "graph/elementwise.h"
#include "tests/support/generators.h"
#include "tests/support/op_samples.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::kArithmetics;
using testing::numbers;
using testing::run;

using Dims = std::vector<int64_t>;

Attributes over(Dims dims, bool keep = true) {
  return {{"dims", std::move(dims)}, {"keep", keep ? 1.0 : 0.0}};
}

struct Expected {
  Shape shape;
  std::vector<double> sums;
  std::vector<double> maxima;
  std::vector<double> in_field;  // surrogates of maxima
};

// With reduced dimensions kept.
Expected reduced_by_definition(const Tensor& x,
                               const std::vector<bool>& reduced) {
  Expected result;
  int64_t elements = 1;
  for (size_t d = 0; d < reduced.size(); ++d) {
    result.shape.push_back(reduced[d] ? 1 : x.shape[d]);
    elements *= result.shape.back();
  }
  result.sums.assign(static_cast<size_t>(elements), 0.0);
  result.maxima.assign(static_cast<size_t>(elements),
                       -std::numeric_limits<double>::infinity());
  const double nothing = field::maximum_of(0);
  result.in_field.assign(static_cast<size_t>(elements), nothing);
  const std::vector<double> values = values_of(x);
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    int64_t stride = 1;
    for (size_t d = reduced.size(); d-- > 0;) {
      if (!reduced[d]) {
        at += rest % x.shape[d] * stride;
        stride *= x.shape[d];
      }
      rest /= x.shape[d];
    }
    result.sums[static_cast<size_t>(at)] += values[i];
    double& most = result.maxima[static_cast<size_t>(at)];
    most = std::max(most, values[i]);
    double& joined = result.in_field[static_cast<size_t>(at)];
    joined = field::maximum(joined, values[i]);
  }
  return result;
}

TEST_CASE("sums, means and maxima over any dimensions") {
  CHECK(holds([] {
    const Shape shape = testing::draw_shape(3);
    std::vector<bool> reduced;
    Dims dims;
    double whole = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      reduced.push_back(draw_bool());
      if (!reduced.back()) continue;
      const auto dim = static_cast<int64_t>(d);
      const auto rank = static_cast<int64_t>(shape.size());
      dims.push_back(draw_of({dim, dim - rank}));
      whole *= static_cast<double>(shape[d]);
    }
    for (const Arithmetic arithmetic : kArithmetics) {
      // Integers: sums are exact.
      const Tensor x =
          numbers(arithmetic, shape, 1, {testing::Domain::Integers, 64});
      const Expected expected = reduced_by_definition(x, reduced);
      const Tensor sum = run("sum", {x}, over(dims), arithmetic);
      ENSURE(sum.shape == expected.shape);
      ENSURE(values_of(sum) == expected.sums);
      ENSURE(values_of(run("sum", {x}, over(dims, false), arithmetic)) ==
             expected.sums);
      if (whole == 0) continue;
      const std::vector<double> mean =
          values_of(run("mean", {x}, over(dims), arithmetic));
      const std::vector<double> most =
          values_of(run("max", {x}, over(dims), arithmetic));
      if (arithmetic == Arithmetic::Field) {
        ENSURE(most == expected.in_field);
      } else {
        ENSURE(most == expected.maxima);
      }
      for (size_t i = 0; i < mean.size(); ++i) {
        double quotient = expected.sums[i] / whole;
        if (arithmetic == Arithmetic::F32) {
          quotient = static_cast<float>(quotient);
        }
        ENSURE((arithmetic == Arithmetic::Field
                    ? field::multiply(mean[i], whole) == expected.sums[i]
                    : mean[i] == quotient));
      }
    }
  }));
}

TEST_CASE("reduced dimensions stay with size 1, or go") {
  CHECK(inferred("sum", {{2, 3, 4}}, {{"dims", Dims{-1, 0}}}) == "[1, 3, 1]");
  CHECK(inferred("sum", {{2, 3, 4}}, over({-1, 0}, false)) == "[3]");
  CHECK(inferred("mean", {{2}}, over({0}, false)) == "[]");
  CHECK(inferred("sum", {{}}, over({})) == "[]");
}

TEST_CASE("a sum of nothing is 0, and the mean of nothing no number") {
  const Tensor x = make_tensor(Element::F32, {2, 0});
  CHECK(values_of(run("sum", {x}, over({1}), Arithmetic::F32)) ==
        std::vector<double>{0, 0});
  CHECK(std::isnan(values_of(run("mean", {x}, over({1}), Arithmetic::F32))[0]));
  const Tensor residues = make_tensor(Element::F64, {2, 0});
  CHECK(values_of(run("mean", {residues}, over({1}), Arithmetic::Field)) ==
        std::vector<double>{0, 0});
}

TEST_CASE("long sums in float are as good as pairwise sums are") {
  // Added one after the other, the last terms would be lost by half.
  constexpr int64_t kTerms = 1 << 22;
  const double tenth[] = {0.1};
  const Tensor x =
      broadcast_to(make_tensor(Element::F32, {1}, tenth), {kTerms});
  const double sum = values_of(run("sum", {x}, over({0}), Arithmetic::F32))[0];
  const double exact = static_cast<double>(0.1F) * kTerms;
  CHECK(std::abs(sum - exact) <= 22 * 0x1p-24 * exact);
}

TEST_CASE("the maximum of what has no number in it is not a number") {
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  const double kInf = std::numeric_limits<double>::infinity();
  const double values[] = {kNan, 1, 2,    1,     kNan,  2,
                           1,    2, kNan, -kInf, -kInf, -kInf};
  const Tensor x = make_tensor(Element::F32, {4, 3}, values);
  const auto most = values_of(run("max", {x}, over({1}), Arithmetic::F32));
  for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(most[i]));
  CHECK(most[3] == -kInf);
}

TEST_CASE("what is reduced gives partial sums or of a maximum") {
  const auto rule = fitted("sum", {{2, 3, 1}}, over({1, 2})).rule;
  CHECK(rule.factors == std::vector<Factor>{{2}, {3, FactorKind::Sum}});
  CHECK(rule.operands[0] == std::vector<DimFactors>{{0}, {1}, {}});
  CHECK(rule.result == std::vector<DimFactors>{{0}, {}, {}});
  CHECK(fitted("max", {{2, 3}}, over({1}, false)).rule.factors[1].kind ==
        FactorKind::Max);
}

TEST_CASE("dimensions that cannot be reduced are SP015") {
  CHECK(inferred("sum", {{2, 3}}, over({2})) ==
        "SP015 [2, 3] has no dimension 2");
  CHECK(inferred("sum", {{2, 3}}, over({1, -1})) ==
        "SP015 dimension 1 of [2, 3] is in `dims` twice");
  CHECK(
      inferred("max", {{2, 0}}, over({1})) ==
      "SP015 cannot take the maximum over dimension 1 of [2, 0]: it is empty");
  CHECK(inferred("max", {{2, 0}}, over({0})) == "[1, 0]");
  CHECK(inferred("sum", {{2}}, {{"dims", Dims{0}}, {"keep", 2.0}}) ==
        "SP015 `keep` is 2");
}

}  // namespace
}  // namespace shardplan
