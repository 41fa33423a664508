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

}  // namespace

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
