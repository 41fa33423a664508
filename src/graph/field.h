// SPDX-License-Identifier: Apache-2.0
// The exact mode: integers modulo a prime, held in doubles.
//
// Products of two residues are below 2^40, so sums of up to 8,192 of them stay
// below 2^53 and every operation is exact. Nonlinear operations have polynomial
// or rational surrogates with the same factor structure: they are not the
// functions that they stand for, but equal inputs give equal results, and two
// different plans' results differ as polynomials (Schwartz-Zippel).
//
// Residues have no order, so a maximum needs a surrogate too, which shards can
// compute in parts as they can a maximum: associative, commutative, and the
// number itself of a single one. A sum is all that, but then a sum in the place
// of a maximum would look right. It is g^-1(g(a) + g(b) + ..) of a permutation
// g of the residues that is no linear function and not odd: other than a sum, a
// mean, or the minimum -max(-a, -b). Unlike a maximum it does not stay when a
// part is taken twice, which no plan may rely on.
#pragma once

#include <cmath>
#include <cstdint>

namespace shardplan::field {

inline constexpr int64_t kPrime = 1'048'573;
// Products that may be summed in a double before a reduction.
inline constexpr int64_t kBlock = 8192;

// The residue in [0, p) of an integer held exactly in a double; negative ones
// included. Here, since the loops of products and sums are made of it.
inline double residue(double x) {
  constexpr auto kP = static_cast<double>(kPrime);
  // Above, the quotient times p could need more than 53 bits.
  if (!(std::abs(x) <= 0x1p53 - kP)) {
    const double rest = std::fmod(x, kP);
    return rest < 0 ? rest + kP : rest + 0.0;  // no negative zero
  }
  // The rounded reciprocal may put the quotient off by one.
  const double rest = x - kP * std::floor(x * (1 / kP));
  if (rest < 0) return rest + kP;
  return rest < kP ? rest : rest - kP;
}

inline double add(double a, double b) {
  const double sum = a + b;
  return sum < static_cast<double>(kPrime) ? sum
                                           : sum - static_cast<double>(kPrime);
}

inline double multiply(double a, double b) { return residue(a * b); }

// The surrogate of a maximum: of `n` numbers it is
// maximum_of(sum of maximum_term(x_i)). Both are permutations of the residues,
// each the inverse of the other.
double maximum_term(double x);
double maximum_of(double sum_of_terms);
inline double maximum(double a, double b) {
  return maximum_of(add(maximum_term(a), maximum_term(b)));
}

// Negative exponents are powers of the inverse; anything to the 0 is 1.
double power(double a, int64_t exponent);
double inverse(double a);  // 0 for 0
// The residue that stands for a real number in the graph itself, such as the
// scale 0.125: of its numerator over its denominator, a power of two. 0 for
// what is not finite.
double constant(double x);

}  // namespace shardplan::field
