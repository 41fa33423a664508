// SPDX-License-Identifier: Apache-2.0
// The exact mode: integers modulo a prime, held in doubles.
//
// Products of two residues are below 2^40, so sums of up to 8,192 of them stay
// below 2^53 and every operation is exact. Nonlinear operations have polynomial
// or rational surrogates with the same factor structure: they are not the
// functions that they stand for, but equal inputs give equal results, and two
// different plans' results differ as polynomials (Schwartz-Zippel).
#pragma once

#include <cstdint>

namespace shardplan::field {

inline constexpr int64_t kPrime = 1'048'573;
// Products that may be summed in a double before a reduction.
inline constexpr int64_t kBlock = 8192;

// The residue in [0, p) of an integer held exactly in a double; negative ones
// included.
double residue(double x);
double add(double a, double b);
double multiply(double a, double b);
double power(double a, int64_t exponent);
double inverse(double a);  // 0 for 0
// The residue that stands for a real number in the graph itself, such as the
// scale 0.125: of its numerator over its denominator, a power of two.
double constant(double x);

}  // namespace shardplan::field
