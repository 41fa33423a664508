// SPDX-License-Identifier: Apache-2.0
#include "sim/verdict.h"

#include <cmath>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

Tensor rows(const Shape& shape, const std::vector<double>& numbers) {
  return make_tensor(Element::F64, shape, numbers);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("verdict: a row's error is relative to its norm") {
  const Tensor y = rows({2, 2}, {3, 4, 6, 8});
  CHECK(structural_error(y, y) == 0);
  // Row 0 has norm 5 but the median is 7.5; row 1 has norm 10.
  CHECK(structural_error(y, rows({2, 2}, {3, 7, 6, 8})) ==
        doctest::Approx(3 / 7.5));
  CHECK(structural_error(y, rows({2, 2}, {3, 4, 6, 7})) ==
        doctest::Approx(0.1));
  CHECK(structural_error(y, rows({2, 2}, {3, 7, 6, 7})) ==
        doctest::Approx(3 / 7.5));
}

TEST_CASE("verdict: the median of an odd number of rows is the middle one") {
  const Tensor y = rows({3, 1}, {1, 100, 4});
  CHECK(structural_error(y, rows({3, 1}, {2, 100, 4})) ==
        doctest::Approx(0.25));
  // An even number: halfway between the middle two, 2.5.
  const Tensor even = rows({4, 1}, {1, 2, 3, 4});
  CHECK(structural_error(even, rows({4, 1}, {2, 2, 3, 4})) ==
        doctest::Approx(1 / 2.5));
}

TEST_CASE("verdict: a row of zeros is measured by the others") {
  const Tensor y = rows({3, 1}, {0, 2, 2});
  CHECK(structural_error(y, rows({3, 1}, {1, 2, 2})) == doctest::Approx(0.5));
  // All zero on both sides is no error, on one side a mismatch.
  const Tensor zero = rows({2, 2}, {0, 0, 0, 0});
  CHECK(structural_error(zero, zero) == 0);
  CHECK(structural_error(zero, rows({2, 2}, {0, 0, 0, 1e-300})) == kInfinity);
  // Squares of these are no longer, or not yet, numbers.
  CHECK(structural_error(rows({1, 1}, {1e-200}), rows({1, 1}, {2e-200})) ==
        doctest::Approx(1));
  CHECK(structural_error(rows({1, 1}, {1e200}), rows({1, 1}, {2e200})) ==
        doctest::Approx(1));
  // Where most rows are zero, the median is: only a row's own norm counts.
  const Tensor most = rows({3, 1}, {0, 0, 2});
  CHECK(structural_error(most, rows({3, 1}, {0, 0, 3})) ==
        doctest::Approx(0.5));
  CHECK(structural_error(most, rows({3, 1}, {1, 0, 2})) == kInfinity);
}

TEST_CASE("verdict: no numbers and infinities agree with themselves only") {
  const Tensor y = rows({1, 3}, {kNan, kInfinity, 1});
  CHECK(structural_error(y, y) == 0);
  CHECK(structural_error(y, rows({1, 3}, {1, kInfinity, 1})) == kInfinity);
  CHECK(structural_error(y, rows({1, 3}, {kNan, -kInfinity, 1})) == kInfinity);
  CHECK(structural_error(rows({1, 1}, {1}), rows({1, 1}, {kNan})) == kInfinity);
  // What is finite in such a row is still compared.
  CHECK(structural_error(y, rows({1, 3}, {kNan, kInfinity, 3})) ==
        doctest::Approx(2));
}

// Errors of what is not finite were 0, and a run that overflowed was "inexact
// where the unsharded one is exact".
TEST_CASE("verdict: what is not finite has no error") {
  for (const double odd : {kNan, kInfinity, -kInfinity}) {
    CAPTURE(odd);
    const Tensor y = rows({1, 2}, {1, 2});
    const Tensor bad = rows({1, 2}, {odd, 2});
    const std::vector<Tensor> ys = {y};
    const std::vector<Tensor> bads = {bad};
    CHECK(std::isnan(error_amplification(bads, bads, bads)));
    CHECK(std::isnan(error_amplification(ys, bads, ys)));
    CHECK(std::isnan(error_amplification(ys, ys, bads)));
    CHECK(std::isnan(relative_error(bad, bad)));
    CHECK(std::isnan(relative_error(y, bad)));
    CHECK(std::isnan(relative_error(bad, y)));
    CHECK_FALSE(bound_ratio(bad, bad, y, y, 8, 2));
    CHECK_FALSE(bound_ratio(y, bad, y, y, 8, 2));
    CHECK_FALSE(bound_ratio(y, y, bad, y, 8, 2));
    CHECK_FALSE(bound_ratio(y, y, y, bad, 8, 2));
  }
}

TEST_CASE("verdict: a row is as large as its norm, or as most rows are") {
  const Tensor y = rows({3, 2}, {3, 4, 0, 1, kInfinity, 0});
  CHECK(row_scales(y) == std::vector<double>{5, 1, 1});
  CHECK(row_scales(rows({0, 3}, {})).empty());
}

TEST_CASE("verdict: scalars and empty results have errors too") {
  CHECK(structural_error(rows({}, {4}), rows({}, {5})) ==
        doctest::Approx(0.25));
  CHECK(structural_error(rows({0, 3}, {}), rows({0, 3}, {})) == 0);
  const std::vector<Tensor> y = {rows({1}, {1}), rows({1}, {2})};
  const std::vector<Tensor> s = {rows({1}, {1}), rows({1}, {3})};
  CHECK(structural_error(y, s) == doctest::Approx(0.5));
  CHECK(structural_error(y, y) == 0);
}

TEST_CASE("verdict: amplification compares the errors of two runs") {
  const std::vector<Tensor> y = {rows({1, 2}, {0, 0})};
  const std::vector<Tensor> u = {rows({1, 2}, {1, 0})};
  const std::vector<Tensor> s = {rows({1, 2}, {3, 4})};
  CHECK(error_amplification(y, u, s) == doctest::Approx(5));
  CHECK(error_amplification(y, s, u) == doctest::Approx(0.2));
  CHECK(error_amplification(y, y, y) == 1);  // 0/0
  CHECK(error_amplification(y, y, s) == kInfinity);
  CHECK(error_amplification(y, u, y) == 0);
  // Sums go over all results.
  const std::vector<Tensor> y2 = {y[0], y[0]};
  CHECK(error_amplification(y2, std::vector<Tensor>{u[0], u[0]},
                            std::vector<Tensor>{s[0], u[0]}) ==
        doctest::Approx(std::sqrt(13.0)));
}

TEST_CASE("verdict: gamma is n u / (1 - n u), while that means anything") {
  CHECK(gamma(1, 0x1p-24).value() ==
        doctest::Approx(0x1p-24 / (1 - 0x1p-24)).epsilon(1e-15));
  CHECK(gamma(0, 0x1p-24) == 0.0);
  CHECK(gamma(3, 0.25) == doctest::Approx(3));
  CHECK_FALSE(gamma(4, 0.25).has_value());
  CHECK_FALSE(gamma(int64_t{1} << 24, 0x1p-24).has_value());
  CHECK(gamma((int64_t{1} << 24) - 1, 0x1p-24).has_value());
}

TEST_CASE("verdict: a bound ratio is the error over what rounding allows") {
  const Tensor y = rows({1, 2}, {1, 2});
  const Tensor s = rows({1, 2}, {1 + 0x1p-20, 2});
  const Tensor products = rows({1, 2}, {4, 4});
  const Tensor parts = rows({1, 2}, {2, 2});
  const double bound =
      *gamma(8, 0x1p-24) * 4 + *gamma(2, 0x1p-24) * 2 + 0x1p-24;
  CHECK(bound_ratio(y, s, products, parts, 8, 2).value() ==
        doctest::Approx(0x1p-20 / bound));
  CHECK(bound_ratio(y, y, products, parts, 8, 2) == 0.0);
  const Tensor zero = rows({1, 2}, {0, 0});
  CHECK(bound_ratio(zero, zero, zero, zero, 8, 2) == 0.0);
  CHECK(bound_ratio(zero, s, zero, zero, 8, 2) == kInfinity);
  CHECK_FALSE(
      bound_ratio(y, s, products, parts, int64_t{1} << 24, 2).has_value());
  CHECK_FALSE(
      bound_ratio(y, s, products, parts, 8, int64_t{1} << 24).has_value());
}

TEST_CASE("verdict: a bound knows the types of the sum and of the result") {
  const Tensor y = rows({1, 1}, {1});
  const Tensor s = rows({1, 1}, {1 + 0x1p-9});
  const Tensor products = rows({1, 1}, {4});
  const Tensor parts = rows({1, 1}, {2});
  const double product = *gamma(8, 0x1p-24) * 4;
  CHECK(bound_ratio(y, s, products, parts, 8, 2, Storage::F32, Storage::BF16)
            .value() ==
        doctest::Approx(0x1p-9 / (product + *gamma(2, 0x1p-24) * 2 + 0x1p-8)));
  CHECK(bound_ratio(y, s, products, parts, 8, 2, Storage::BF16, Storage::F16)
            .value() ==
        doctest::Approx(0x1p-9 / (product + *gamma(2, 0x1p-8) * 2 + 0x1p-11))
            .epsilon(1e-4));
  CHECK_FALSE(
      bound_ratio(y, s, products, parts, 8, 256, Storage::BF16).has_value());
}

TEST_CASE("verdict: a result below the least number of f16 may become 0") {
  const Tensor y = rows({1, 1}, {0x1p-26});
  const Tensor zero = rows({1, 1}, {0});
  const auto ratio = [&](Storage storage) {
    return bound_ratio(y, zero, y, y, 1, 1, storage, storage).value();
  };
  CHECK(ratio(Storage::F16) <= 1);
  CHECK(ratio(Storage::BF16) > 1);
}

TEST_CASE("verdict: a relative error is over all rows") {
  const Tensor y = rows({2, 2}, {3, 0, 0, 4});
  CHECK(relative_error(y, y) == 0);
  CHECK(relative_error(y, rows({2, 2}, {3, 0, 0, 4.5})) ==
        doctest::Approx(0.1));
  const Tensor zero = rows({2, 2}, {0, 0, 0, 0});
  CHECK(relative_error(zero, zero) == 0);
  CHECK(relative_error(zero, y) == kInfinity);
}

}  // namespace
}  // namespace shardplan
