// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/op_samples.h"

namespace shardplan {
namespace {

using testing::fitted;
using testing::inferred;
using testing::numbers;
using testing::run;

TEST_CASE("a causal convolution sees a token and those before it") {
  const double x[] = {1, 10, 2, 20, 3, 30, 4, 40};
  const double kernel[] = {0.25, 0.5, 1, 0, 0, -1};
  const Tensor result = run("causal_convolution",
                            {make_tensor(Element::F64, {1, 4, 2}, x),
                             make_tensor(Element::F64, {2, 3}, kernel)},
                            {}, Arithmetic::F64);
  CHECK(values_of(result) ==
        std::vector<double>{1, -10, 2.5, -20, 4.25, -30, 6, -40});
}

TEST_CASE("sequences are convolved each by itself") {
  const Tensor x = numbers(Arithmetic::F64, {3, 5, 2}, 1);
  const Tensor kernel = numbers(Arithmetic::F64, {2, 4}, 2);
  const Tensor all =
      run("causal_convolution", {x, kernel}, {}, Arithmetic::F64);
  for (int64_t b = 0; b < 3; ++b) {
    CHECK(
        bitwise_equal(run("causal_convolution", {slice(x, 0, b, b + 1), kernel},
                          {}, Arithmetic::F64),
                      contiguous(slice(all, 0, b, b + 1))));
  }
}

TEST_CASE("what cannot be convolved is SP015") {
  CHECK(inferred("causal_convolution", {{2, 4, 3}, {3, 2}}, {}) == "[2, 4, 3]");
  for (const Shape& kernel : {Shape{2, 3}, Shape{3, 0}, Shape{3, 1, 2}}) {
    CHECK(inferred("causal_convolution", {{2, 4, 3}, kernel}, {})
              .starts_with("SP015 cannot convolve [2, 4, 3] with kernels "));
  }
}

// By the definition: what a query reads of every earlier token.
std::vector<double> recurrence(const std::vector<Tensor>& operands) {
  std::vector<std::vector<double>> v;
  for (const Tensor& each : operands) v.push_back(values_of(each));
  const Shape& value = operands[2].shape;
  const Shape& query = operands[0].shape;
  const int64_t L = value[1];
  const int64_t H = value[2];
  const int64_t P = value[3];
  const int64_t G = query[2];
  const int64_t N = query[3];
  const bool by_number = operands[3].shape.size() == 4;
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  std::vector<double> result;
  for (int64_t i = 0; i < value[0] * L * H * P; ++i) {
    const int64_t p = i % P;
    const int64_t h = i / P % H;
    const int64_t t = i / P / H % L;
    const int64_t b = i / P / H / L;
    const int64_t g = h / (H / G);
    double sum = 0;
    for (int64_t s = 0; s <= t; ++s) {
      for (int64_t n = 0; n < N; ++n) {
        double kept = 1;
        for (int64_t r = s + 1; r <= t; ++r) {
          const int64_t head = (b * L + r) * H + h;
          kept *= v[3][at(by_number ? head * N + n : head)];
        }
        sum += v[0][at(((b * L + t) * G + g) * N + n)] *
               v[1][at(((b * L + s) * G + g) * N + n)] *
               v[2][at(((b * L + s) * H + h) * P + p)] * kept;
      }
    }
    result.push_back(sum);
  }
  return result;
}

TEST_CASE("a linear recurrence is the sum over all earlier tokens") {
  const std::vector<std::vector<Shape>> all = {
      {{2, 5, 2, 3}, {2, 5, 2, 3}, {2, 5, 4, 2}, {2, 5, 4}},
      {{2, 5, 1, 3}, {2, 5, 1, 3}, {2, 5, 3, 1}, {2, 5, 3, 3}},
      {{1, 1, 2, 1}, {1, 1, 2, 1}, {1, 1, 2, 4}, {1, 1, 2}}};
  for (const std::vector<Shape>& shapes : all) {
    std::vector<Tensor> operands;
    for (const Shape& shape : shapes) {
      operands.push_back(numbers(Arithmetic::F64, shape, operands.size() + 1));
    }
    const std::vector<double> wanted = recurrence(operands);
    const std::vector<double> found =
        values_of(run("linear_recurrence", operands, {}, Arithmetic::F64));
    REQUIRE(found.size() == wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      CHECK(std::abs(found[i] - wanted[i]) < 1e-12);
    }
  }
}

TEST_CASE("a state that is too large to hold is computed column by column") {
  const int64_t states = (int64_t{1} << 15) + 1;  // so that 1 fits, not 3
  const Tensor query = numbers(Arithmetic::F64, {1, 2, 1, states}, 1);
  const Tensor key = numbers(Arithmetic::F64, {1, 2, 1, states}, 2);
  const Tensor value = numbers(Arithmetic::F64, {1, 2, 1, 3}, 3);
  const Tensor decay = numbers(Arithmetic::F64, {1, 2, 1}, 4);
  const Tensor all =
      run("linear_recurrence", {query, key, value, decay}, {}, Arithmetic::F64);
  for (int64_t p = 0; p < 3; ++p) {
    CHECK(bitwise_equal(
        run("linear_recurrence", {query, key, slice(value, 3, p, p + 1), decay},
            {}, Arithmetic::F64),
        contiguous(slice(all, 3, p, p + 1))));
  }
  const Tensor wide = make_tensor(Element::F64, {1, 1, 1, int64_t{1} << 22});
  CHECK(run("linear_recurrence",
            {wide, wide, slice(wide, 3, 0, 2),
             make_tensor(Element::F64, {1, 1, 1})},
            {}, Arithmetic::F64)
            .elements() == 2);
}

TEST_CASE("a recurrence shards heads by group, and its state as sums") {
  const auto fit =
      fitted("linear_recurrence",
             {{2, 5, 2, 3}, {2, 5, 2, 3}, {2, 5, 6, 4}, {2, 5, 6}}, {});
  const auto kind = [&](const DimFactors& dim) {
    return fit.rule.factors[static_cast<size_t>(dim.front())].kind;
  };
  CHECK(kind(fit.rule.result[0]) == FactorKind::Pass);
  CHECK(kind(fit.rule.result[1]) == FactorKind::Whole);
  REQUIRE(fit.rule.result[2].size() == 2);
  CHECK(fit.rule.result[2].front() == fit.rule.operands[0][2].front());
  CHECK(kind(fit.rule.operands[0][3]) == FactorKind::Sum);
  CHECK(fit.op->flops({{{2, 5, 2, 3}, {2, 5, 2, 3}, {2, 5, 6, 4}, {2, 5, 6}}},
                      fit.result, {}) == 2 * 5 * 6 * 4 * 3 * 5);
}

TEST_CASE("what makes no recurrence is SP015") {
  const Shape query = {2, 5, 2, 3};
  const std::vector<std::vector<Shape>> all = {
      {query, {2, 5, 2, 4}, {2, 5, 4, 2}, {2, 5, 4}},
      {query, query, {2, 5, 3, 2}, {2, 5, 3}},
      {query, query, {2, 4, 4, 2}, {2, 4, 4}},
      {query, query, {2, 5, 4, 2}, {2, 5, 2}},
      {query, query, {2, 5, 4, 2}, {2, 5, 4, 2}},
      {query, query, {2, 5, 4}, {2, 5, 4}},
      {{2, 5, 0, 3}, {2, 5, 0, 3}, {2, 5, 0, 2}, {2, 5, 0}}};
  for (const std::vector<Shape>& shapes : all) {
    CHECK(inferred("linear_recurrence", shapes, {})
              .starts_with("SP015 queries, keys, values and decays "));
  }
}

TEST_CASE("a delta recurrence writes what its state has not of a value") {
  const auto of = [](const Shape& shape, const std::vector<double>& numbers) {
    return make_tensor(Element::F64, shape, numbers);
  };
  // A head of one column: the second token decays by half, then finds 0.5 * 6
  // of its value 5 under its own key and 0 under the other, and writes half of
  // the rest.
  const std::vector<Tensor> operands = {
      of({1, 2, 1, 2}, {1, 0, 1, 10}), of({1, 2, 1, 2}, {2, 0, 1, 1}),
      of({1, 2, 1, 1}, {3, 5}), of({1, 2, 1}, {1, 0.5}),
      of({1, 2, 1}, {1, 0.5})};
  CHECK(values_of(run("delta_recurrence", operands, {}, Arithmetic::F64)) ==
        std::vector<double>{6, (3 + 1) + 10 * 1});
  // With orthogonal keys of length 1 and rates of 1 it is the linear one.
  const std::vector<double> keys = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  std::vector<Tensor> both = {numbers(Arithmetic::F64, {1, 3, 1, 3}, 1),
                              of({1, 3, 1, 3}, keys),
                              numbers(Arithmetic::F64, {1, 3, 2, 4}, 2),
                              of({1, 3, 2}, {1, 1, 1, 1, 1, 1})};
  const auto linear =
      values_of(run("linear_recurrence", both, {}, Arithmetic::F64));
  both.push_back(both.back());
  CHECK(values_of(run("delta_recurrence", both, {}, Arithmetic::F64)) ==
        linear);
}

TEST_CASE("a delta recurrence needs whole states, and a rate of every head") {
  const Shape query = {2, 5, 2, 3};
  const auto fit =
      fitted("delta_recurrence",
             {query, query, {2, 5, 6, 4}, {2, 5, 6}, {2, 5, 6}}, {});
  const DimFactors& states = fit.rule.operands[0][3];
  CHECK(fit.rule.factors[static_cast<size_t>(states.front())].kind ==
        FactorKind::Whole);
  CHECK(fit.rule.operands[4] ==
        std::vector<DimFactors>(fit.rule.result.begin(),
                                fit.rule.result.begin() + 3));
  CHECK(inferred("delta_recurrence",
                 {query, query, {2, 5, 6, 4}, {2, 5, 6}, {2, 5, 2}}, {})
            .starts_with("SP015 queries, keys, values, decays and rates "));
}

TEST_CASE("a decaying maximum runs from 0") {
  const double x[] = {-1, 4, 1, 0, 5, -9};
  const double decay[] = {-0.5, -1, -0.5, -1, -0.5, -1};
  const std::vector<Tensor> operands = {
      make_tensor(Element::F64, {1, 3, 2}, x),
      make_tensor(Element::F64, {1, 3, 2}, decay)};
  CHECK(values_of(run("decaying_maximum", operands, {}, Arithmetic::F64)) ==
        std::vector<double>{-0.5, 4, 1, 3, 5, 2});
  CHECK(values_of(run("decaying_maximum", operands, {{"before", 1.0}},
                      Arithmetic::F64)) ==
        std::vector<double>{0, 0, -0.5, 4, 1, 3});
  CHECK(inferred("decaying_maximum", {{2, 3}, {2, 4}}, {}) ==
        "SP015 values and decays [2, 3] and [2, 4] do not fit");
  CHECK(inferred("decaying_maximum", {{2}, {2}}, {}).starts_with("SP015"));
}

}  // namespace
}  // namespace shardplan
