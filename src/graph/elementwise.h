// SPDX-License-Identifier: Apache-2.0
// Walking over the elements of several tensors of one shape at once.
//
// Dimensions of size 1 are dropped, and adjacent ones are joined wherever the
// strides of every tensor allow it, so that the innermost loop is as long as
// can be: one row for row-major tensors. Rows come in row-major order.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "core/types.h"
#include "graph/op.h"
#include "graph/tensor.h"

namespace shardplan {

using Strides = std::vector<int64_t>;  // elements; one per dimension

// The joined dimensions, at least one: their sizes, and for every tensor their
// strides. One of size 0 where there are no elements.
struct Walk {
  Shape sizes;
  std::vector<Strides> strides;
};
Walk joined_dims(const Shape& shape, std::span<const Strides> strides);

// The stride of dimensions [begin, end) taken as one; empty where they do not
// lie so. 0 for a single element.
std::optional<int64_t> joined_stride(const Shape& shape, const Strides& strides,
                                     size_t begin, size_t end);

// Calls row(count, offsets, steps) for every row of a walk whose first elements
// have these offsets.
template <size_t N, typename Row>
void for_each_row_of(const Walk& walk, std::array<int64_t, N> offsets,
                     const Row& row) {
  std::array<int64_t, N> steps{};
  for (size_t t = 0; t < N; ++t) steps[t] = walk.strides[t].back();
  for (const int64_t size : walk.sizes) {
    if (size == 0) return;
  }
  const size_t outer = walk.sizes.size() - 1;
  std::vector<int64_t> index(outer, 0);
  while (true) {
    row(walk.sizes.back(), offsets, steps);
    size_t dim = outer;
    while (dim > 0) {
      --dim;
      const bool wraps = ++index[dim] == walk.sizes[dim];
      const int64_t moved = wraps ? 1 - index[dim] : 1;
      for (size_t t = 0; t < N; ++t) offsets[t] += moved * walk.strides[t][dim];
      if (!wraps) break;
      index[dim] = 0;
      if (dim == 0) return;
    }
    if (outer == 0) return;
  }
}

// Calls row(count, offsets, steps) for every row: its elements, and for every
// tensor the first element's offset and the distance of neighbours.
template <size_t N, typename Row>
void for_each_row(const Shape& shape, const std::array<Strides, N>& strides,
                  const Row& row) {
  for_each_row_of<N>(joined_dims(shape, strides), {}, row);
}

// The same on several threads where it pays, in any order; a row may come in
// pieces. `work` is what one element costs, in elements read or written.
// REQUIRES: what is made of an element depends on no other row's.
template <size_t N, typename Row>
void for_each_row(const Shape& shape, const std::array<Strides, N>& strides,
                  int threads, int64_t work, const Row& row) {
  constexpr int64_t kWorthThreads = int64_t{1} << 16U;
  constexpr int64_t kPieces = 32;
  const Walk walk = joined_dims(shape, strides);
  int64_t total = std::max<int64_t>(1, work);
  for (const int64_t size : walk.sizes) total *= size;
  if (threads <= 1 || total < kWorthThreads) {
    for_each_row_of<N>(walk, {}, row);
    return;
  }
  const auto largest = std::max_element(walk.sizes.begin(), walk.sizes.end());
  const auto dim = static_cast<size_t>(largest - walk.sizes.begin());
  const int64_t pieces = std::min(kPieces, *largest);
  parallel_for(pieces, threads, [&](int64_t i) {
    const int64_t begin = *largest * i / pieces;
    Walk part = walk;
    part.sizes[dim] = *largest * (i + 1) / pieces - begin;
    std::array<int64_t, N> offsets{};
    for (size_t t = 0; t < N; ++t) offsets[t] = begin * walk.strides[t][dim];
    for_each_row_of<N>(part, offsets, row);
  });
}

}  // namespace shardplan

namespace shardplan::field {

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
// g of the residues that is not a linear function and not odd: other than a
// sum, a mean, or the minimum -max(-a, -b). Unlike a maximum it does not stay
// when a part is taken twice, which no plan may rely on.

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

namespace shardplan {

// Running operations that work element by element, on operands that may be
// strided or broadcast.
//
// A function of one or two numbers is a struct made from the attributes:
//
//   struct Square {
//     explicit Square(const Attributes&) {}
//     template <typename T>
//     T real(T x) const { return x * x; }
//     double field(double x) const { return field::multiply(x, x); }
//   };
//
// `real` is what it computes in float or double; `field` its surrogate
// (graph/elementwise.h).

// c0 + c1 x + c2 x^2 + c3 x^3 in the field: what stands for a nonlinear
// function there. Residues in and out.
inline double field_cubic(double x, const std::array<double, 4>& c) {
  double value = c[3];
  for (const double next : {c[2], c[1], c[0]}) {
    value = field::add(field::multiply(value, x), next);
  }
  return value;
}

// Calls function(std::type_identity<T>{}) for the type of the numbers.
template <typename Function>
void for_element_type(Arithmetic arithmetic, const Function& function) {
  if (element_of(arithmetic) == Element::F32) {
    function(std::type_identity<float>{});
  } else {
    function(std::type_identity<double>{});
  }
}

template <typename T, typename Function>
void map_unary(const Tensor& x, const Tensor& result, int threads,
               const Function& f) {
  const T* from = x.data<T>();
  T* to = result.data<T>();
  for_each_row<2>(result.shape, {result.strides, x.strides}, threads, 1,
                  [&](int64_t count, const std::array<int64_t, 2>& offsets,
                      const std::array<int64_t, 2>& steps) {
                    T* out = to + offsets[0];
                    const T* in = from + offsets[1];
                    if (steps[0] == 1 && steps[1] == 1) {
                      for (int64_t i = 0; i < count; ++i) out[i] = f(in[i]);
                    } else {
                      for (int64_t i = 0; i < count; ++i) {
                        out[i * steps[0]] = f(in[i * steps[1]]);
                      }
                    }
                  });
}

// REQUIRES: x and y have the result's shape (broadcast_to).
template <typename T, typename Function>
void map_binary(const Tensor& x, const Tensor& y, const Tensor& result,
                int threads, const Function& f) {
  const T* left = x.data<T>();
  const T* right = y.data<T>();
  T* to = result.data<T>();
  for_each_row<3>(result.shape, {result.strides, x.strides, y.strides}, threads,
                  1,
                  [&](int64_t count, const std::array<int64_t, 3>& offsets,
                      const std::array<int64_t, 3>& steps) {
                    T* out = to + offsets[0];
                    const T* a = left + offsets[1];
                    const T* b = right + offsets[2];
                    if (steps == std::array<int64_t, 3>{1, 1, 1}) {
                      for (int64_t i = 0; i < count; ++i)
                        out[i] = f(a[i], b[i]);
                    } else if (steps == std::array<int64_t, 3>{1, 1, 0}) {
                      for (int64_t i = 0; i < count; ++i)
                        out[i] = f(a[i], b[0]);
                    } else {
                      for (int64_t i = 0; i < count; ++i) {
                        out[i * steps[0]] = f(a[i * steps[1]], b[i * steps[2]]);
                      }
                    }
                  });
}

// `run` of an operation of one operand.
template <typename Function>
Tensor run_unary(std::span<const Tensor> operands, const Attributes& attributes,
                 const RunContext& context) {
  const Function function(attributes);
  const Tensor& x = operands[0];
  const Tensor result = make_unfilled(element_of(context.arithmetic), x.shape);
  if (context.arithmetic == Arithmetic::Field) {
    map_unary<double>(x, result, context.threads,
                      [&](double v) { return function.field(v); });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    map_unary<T>(x, result, context.threads,
                 [&](T v) { return function.real(v); });
  });
  return result;
}

// `run` of an operation of two operands that are broadcast.
template <typename Function>
Tensor run_binary(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& context) {
  const Function function(attributes);
  const size_t rank =
      std::max(operands[0].shape.size(), operands[1].shape.size());
  Shape shape(rank, 1);
  for (const Tensor& operand : operands) {
    const size_t missing = rank - operand.shape.size();
    for (size_t i = 0; i < operand.shape.size(); ++i) {
      if (operand.shape[i] != 1) shape[missing + i] = operand.shape[i];
    }
  }
  const Tensor x = broadcast_to(operands[0], shape);
  const Tensor y = broadcast_to(operands[1], shape);
  const Tensor result = make_unfilled(element_of(context.arithmetic), shape);
  if (context.arithmetic == Arithmetic::Field) {
    map_binary<double>(x, y, result, context.threads, [&](double a, double b) {
      return function.field(a, b);
    });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    map_binary<T>(x, y, result, context.threads,
                  [&](T a, T b) { return function.real(a, b); });
  });
  return result;
}

// Storage in low precision: numbers are computed in float32 and kept in fewer
// bits.
//
// Rounding is to nearest, ties to even (IEEE 754-2019, 4.3.1); numbers beyond
// the range of float16 become infinite, its subnormals are kept.

enum class Storage : uint8_t { F32, BF16, F16 };
std::optional<Storage> find_storage(std::string_view name);  // "bf16"
std::string_view storage_name(Storage storage);
int64_t storage_bytes(Storage storage);  // of one element
// Half the distance from 1 to the next larger number.
double unit_roundoff(Storage storage);
// Half of the least number above 0: the error of rounding is at most the unit
// roundoff times the number plus this, where nothing overflows (Higham,
// "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 2.1).
double underflow_unit(Storage storage);

float rounded(float number, Storage storage);
// Rounds every number in place; a view rounds what it sees. REQUIRES: the
// tensor is of float32.
void round_to(const Tensor& tensor, Storage storage, int threads = 1);

}  // namespace shardplan
