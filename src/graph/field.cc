// SPDX-License-Identifier: Apache-2.0
#include "graph/field.h"

namespace shardplan::field {
namespace {

double unsigned_power(double a, uint64_t exponent) {
  double result = 1;
  for (double square = a; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

// x^5 is a permutation, since 5 does not divide p - 1; its inverse is the power
// by the inverse of 5 modulo p - 1.
constexpr uint64_t kRoot = 419'429;
static_assert((kPrime - 1) % 5 != 0);
static_assert(5 * kRoot % (kPrime - 1) == 1);
// Without it the surrogate of a maximum would be odd, and a minimum the same.
constexpr double kShift = 27'182;

}  // namespace

double maximum_term(double x) { return unsigned_power(add(x, kShift), 5); }

double maximum_of(double sum_of_terms) {
  return residue(unsigned_power(sum_of_terms, kRoot) - kShift);
}

double power(double a, int64_t exponent) {
  if (exponent >= 0) return unsigned_power(a, static_cast<uint64_t>(exponent));
  return unsigned_power(inverse(a), -static_cast<uint64_t>(exponent));
}

// Fermat: a^(p-1) = 1 unless p divides a.
double inverse(double a) {
  return unsigned_power(a, static_cast<uint64_t>(kPrime - 2));
}

double constant(double x) {
  if (!std::isfinite(x)) return 0;
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  // 53 bits of mantissa as an integer, and the power of two that is left.
  return multiply(residue(std::ldexp(mantissa, 53)), power(2, exponent - 53));
}

}  // namespace shardplan::field
