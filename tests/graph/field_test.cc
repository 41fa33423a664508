// SPDX-License-Identifier: Apache-2.0
#include "graph/field.h"

#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

int64_t remainder_of(int64_t x) {
  const int64_t rest = x % field::kPrime;
  return rest < 0 ? rest + field::kPrime : rest;
}

double any_residue() {
  return static_cast<double>(*rc::gen::inRange<int64_t>(0, field::kPrime));
}

TEST_CASE("field: residues are those of the integers") {
  CHECK(rc::check([] {
    const auto x =
        *rc::gen::inRange<int64_t>(-(int64_t{1} << 53), int64_t{1} << 53);
    RC_ASSERT(field::residue(static_cast<double>(x)) ==
              static_cast<double>(remainder_of(x)));
  }));
  for (const int64_t multiple : {-8589959167LL, -1LL, 0LL, 1LL, 8589959167LL}) {
    for (const int64_t near : {-1, 0, 1}) {
      const int64_t x = multiple * field::kPrime + near;
      CAPTURE(x);
      CHECK(field::residue(static_cast<double>(x)) ==
            static_cast<double>(remainder_of(x)));
    }
  }
  CHECK(field::residue(0x1p1000) == field::power(2, 1000));
}

TEST_CASE("field: zero has one sign") {
  const auto p = static_cast<double>(field::kPrime);
  for (const double x : {0.0, -0.0, p, -p, -p * 0x1p60}) {
    CAPTURE(x);
    CHECK_FALSE(std::signbit(field::residue(x)));
    CHECK(field::residue(x) == 0);
  }
}

TEST_CASE("field: a block of the largest products is exact") {
  const auto largest = static_cast<double>(field::kPrime - 1);
  double sum = 0;
  for (int64_t i = 0; i < field::kBlock; ++i) sum += largest * largest;
  // (-1)^2, 8192 times.
  CHECK(field::residue(sum) == static_cast<double>(field::kBlock));
}

TEST_CASE("field: it is a field") {
  CHECK(rc::check([] {
    const double a = any_residue();
    const double b = any_residue();
    const double c = any_residue();
    RC_ASSERT(field::multiply(a, field::add(b, c)) ==
              field::add(field::multiply(a, b), field::multiply(a, c)));
    RC_ASSERT(field::multiply(a, field::inverse(a)) == (a == 0 ? 0 : 1));
    RC_ASSERT(field::power(a, 3) == field::multiply(a, field::multiply(a, a)));
    RC_ASSERT(field::power(a, -2) == field::inverse(field::multiply(a, a)));
  }));
  CHECK(field::power(0, 0) == 1);
  CHECK(field::power(0, -1) == 0);
  CHECK(field::power(1, std::numeric_limits<int64_t>::min()) == 1);
}

// In the field, a sum used to stand for a maximum, so that a psum in the place
// of a pmax was found right.
TEST_CASE("field: a maximum has parts as a sum has, and is none") {
  const auto maximum_of_all = [](const std::vector<double>& numbers) {
    double sum = 0;
    for (const double x : numbers) {
      sum = field::add(sum, field::maximum_term(x));
    }
    return field::maximum_of(sum);
  };
  CHECK(rc::check([&] {
    const double a = any_residue();
    const double b = any_residue();
    const double c = any_residue();
    const double most = field::maximum(a, b);
    RC_ASSERT(most == field::maximum(b, a));
    RC_ASSERT(field::maximum(most, c) ==
              field::maximum(a, field::maximum(b, c)));
    RC_ASSERT(field::maximum(most, c) == maximum_of_all({a, b, c}));
    RC_ASSERT(maximum_of_all({a}) == a);
    RC_ASSERT(field::maximum(field::maximum_of(0), a) == a);
    RC_ASSERT(field::maximum_of(field::maximum_term(a)) == a);
    RC_ASSERT(field::maximum_term(field::maximum_of(a)) == a);
  }));
  // What could be mistaken for it agrees as often as polynomials of degree 5
  // do.
  int sums = 0;
  int minima = 0;
  int means = 0;
  int equal = 0;
  const double half = field::inverse(2);
  for (double a = 0; a < 2000; ++a) {
    const double b = field::residue(a * 524'287 + 99);
    const double most = field::maximum(a, b);
    sums += most == field::add(a, b);
    minima += most == field::residue(-field::maximum(field::residue(-a),
                                                     field::residue(-b)));
    means += most == field::multiply(field::add(a, b), half);
    equal += most == a || most == b;
  }
  CHECK(sums == 0);
  CHECK(minima == 0);
  CHECK(means == 0);
  CHECK(equal == 0);
}

TEST_CASE("field: constants are fractions over powers of two") {
  CHECK(field::constant(3) == 3);
  CHECK(field::constant(-1) == static_cast<double>(field::kPrime - 1));
  CHECK(field::multiply(field::constant(0.125), 8) == 1);
  CHECK(field::multiply(field::constant(-2.75), 4) == field::residue(-11));
  CHECK(field::constant(0) == 0);
  CHECK(field::constant(std::numeric_limits<double>::infinity()) == 0);
  CHECK(rc::check([] {
    const auto x = static_cast<double>(*rc::gen::arbitrary<int32_t>());
    const auto y = static_cast<double>(*rc::gen::arbitrary<int16_t>()) / 1024;
    RC_ASSERT(field::constant(x * y) ==
              field::multiply(field::constant(x), field::constant(y)));
    RC_ASSERT(field::constant(x + y) ==
              field::add(field::constant(x), field::constant(y)));
  }));
}

}  // namespace
}  // namespace shardplan
