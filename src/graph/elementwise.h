// SPDX-License-Identifier: Apache-2.0
// Elementwise: loops over the elements of several tensors of one shape at once,
// and the arithmetic on those elements.
//
// Dimensions of size 1 are dropped, and adjacent ones are joined wherever the
// strides of every tensor allow it, so that the innermost loop is as long as
// possible: one row for row-major tensors. Rows come in row-major order.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// The joined dimensions, at least one: their sizes, and their strides in every
// tensor. Without elements, there is one dimension of size 0.
struct Walk {
  Shape sizes;
  std::vector<Strides> strides;
};
Walk joined_dims(const Shape& shape, std::span<const Strides> strides);

// Returns the stride of dimensions [begin, end) joined into one, or nullopt if
// they cannot be joined; 0 for a single element.
std::optional<int64_t> joined_stride(const Shape& shape, const Strides& strides,
                                     size_t begin, size_t end);

// Calls row(count, offsets, steps) for every row of a walk that starts at these
// offsets.
template <size_t N, typename Row>
void for_each_row_of(const Walk& walk, std::array<int64_t, N> offsets,
                     const Row& row) {
  std::array<int64_t, N> steps{};
  for (size_t t = 0; t < N; ++t) steps[t] = walk.strides[t].back();
  if (walk.sizes.back() == 0) return;
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

// Calls row(count, offsets, steps) for every row: the number of its elements
// and, for every tensor, the first element's offset and the stride between
// neighbours.
template <size_t N, typename Row>
void for_each_row(const Shape& shape, const std::array<Strides, N>& strides,
                  const Row& row) {
  for_each_row_of<N>(joined_dims(shape, strides), {}, row);
}

// Does the same on several threads if that pays, in any order and possibly in
// pieces of rows. `work` is the cost of one element, in elements read or
// written. REQUIRES: the result for an element depends on no other row.
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

// The exact mode: arithmetic on integers modulo a prime, stored as doubles.
//
// Products of two residues are below 2^40, so sums of up to 8,192 of them stay
// below 2^53 and every operation is exact. Nonlinear operations have polynomial
// or rational surrogates with the same factor structure. A surrogate is not the
// function that it replaces, but equal inputs give equal results, and the
// results of two different plans differ as polynomials (Schwartz-Zippel).
//
// Residues have no order, so a maximum needs a surrogate as well. Shards must
// be able to compute it in parts, as they can a maximum: it is associative,
// commutative, and the identity for a single number. A sum has these
// properties, but then a plan that sums instead of taking the maximum would
// look right. The surrogate is g^-1(g(a) + g(b) + ..), where g is a permutation
// of the residues that is neither linear nor odd, so that it differs from a
// sum, a mean, and the minimum -max(-a, -b). Unlike a maximum, it changes if a
// part is counted twice, which no plan may rely on.

inline constexpr int64_t kPrime = 1'048'573;
// The number of products that may be summed in a double before a reduction.
inline constexpr int64_t kBlock = 8192;

// Returns the residue in [0, p) of an integer held exactly in a double, which
// may be negative. It is inline because the loops of products and sums consist
// of it.
inline double residue(double x) {
  constexpr auto kP = static_cast<double>(kPrime);
  // Above this bound, the quotient times p could need more than 53 bits.
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

// The surrogate of a maximum: for `n` numbers it is maximum_of(sum of
// maximum_term(x_i)). Both functions are permutations of the residues, each the
// inverse of the other.
double maximum_term(double x);
double maximum_of(double sum_of_terms);
inline double maximum(double a, double b) {
  return maximum_of(add(maximum_term(a), maximum_term(b)));
}

// A negative exponent means a power of the inverse; any number to the power 0
// is 1.
double power(double a, int64_t exponent);
double inverse(double a);  // 0 for 0
// Returns the residue that represents a real number of the graph itself, such
// as the scale 0.125: that of its numerator over its denominator, a power of
// two. Returns 0 for a number that is not finite.
double constant(double x);

}  // namespace shardplan::field

namespace shardplan {

// Elementwise operations on operands that may be strided or broadcast.
//
// A function of one or two numbers is a struct made from the attributes:
//
//   struct Scale {
//     explicit Scale(const Attributes& attributes);
//     template <typename T>
//     T real(T x) const { return x * static_cast<T>(by); }
//     double field(double x) const { return field::multiply(x, residue); }
//     ..
//   };
//
// `real` is what it computes in float or double; `field` is its surrogate in
// the field.

// Returns c0 + c1 x + c2 x^2 + c3 x^3 in the field, the surrogate of a
// nonlinear function. Arguments and result are residues.
inline double field_cubic(double x, const std::array<double, 4>& c) {
  double value = c[3];
  for (const double next : {c[2], c[1], c[0]}) {
    value = field::add(field::multiply(value, x), next);
  }
  return value;
}

// Returns ln(1 + e to the power of x), without overflow.
template <typename T>
T softplus(T x) {
  return (x > 0 ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
}

// Returns function(std::type_identity<T>{}), where T is the C++ type of the
// numbers.
template <typename Function>
auto for_element_type(Element element, const Function& function) {
  return element == Element::F32 ? function(std::type_identity<float>{})
                                 : function(std::type_identity<double>{});
}

// The arithmetic of a run: that of reals, and its surrogate in the field.
template <typename T>
struct RealRing {
  using Number = T;
  // A score that a softmax ignores, and a number that does not exist.
  static constexpr T kHidden = -std::numeric_limits<T>::infinity();
  static constexpr T kMissing = std::numeric_limits<T>::quiet_NaN();
  static T of(double constant) { return static_cast<T>(constant); }
  static T add(T a, T b) { return a + b; }
  static T subtract(T a, T b) { return a - b; }
  static T multiply(T a, T b) { return a * b; }
  // NaN if either number is NaN, as in JAX.
  static T maximum(T a, T b) { return a > b || std::isnan(a) ? a : b; }
};
struct FieldRing {
  using Number = double;
  static constexpr double kHidden = 0;
  static constexpr double kMissing = 0;
  static double of(double constant) { return field::constant(constant); }
  static double add(double a, double b) { return field::add(a, b); }
  static double subtract(double a, double b) { return field::residue(a - b); }
  static double multiply(double a, double b) { return field::multiply(a, b); }
  static double maximum(double a, double b) { return field::maximum(a, b); }
};

// Calls function(ring) with the ring of the run.
template <typename Function>
void for_ring(Arithmetic arithmetic, const Function& function) {
  switch (arithmetic) {
    case Arithmetic::F32:
      return function(RealRing<float>{});
    case Arithmetic::F64:
      return function(RealRing<double>{});
    case Arithmetic::Field:
      return function(FieldRing{});
  }
}

template <typename From, typename To = From, typename Function>
void map_unary(const Tensor& x, const Tensor& result, int threads,
               const Function& f) {
  const From* from = x.data<From>();
  To* to = result.data<To>();
  for_each_row<2>(result.shape, {result.strides, x.strides}, threads, 1,
                  [&](int64_t count, const std::array<int64_t, 2>& offsets,
                      const std::array<int64_t, 2>& steps) {
                    To* out = to + offsets[0];
                    const From* in = from + offsets[1];
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

// Returns what a function gives in the arithmetic of a ring.
template <typename Ring, typename Function, typename... Numbers>
auto in_ring(const Function& function, Numbers... numbers) {
  if constexpr (std::is_same_v<Ring, FieldRing>) {
    return function.field(numbers...);
  } else {
    return function.real(numbers...);
  }
}

// `run` for an operation with one operand.
template <typename Function>
Tensor run_unary(TensorSpan operands, const Attributes& attributes,
                 const RunContext& context) {
  const Function function(attributes);
  const Tensor& x = operands[0];
  const Tensor result = make_unfilled(element_of(context.arithmetic), x.shape);
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    map_unary<typename Ring::Number>(x, result, context.threads, [&](auto v) {
      return in_ring<Ring>(function, v);
    });
  });
  return result;
}

// `run` for an operation with two operands that are broadcast.
template <typename Function>
Tensor run_binary(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
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
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    map_binary<typename Ring::Number>(
        x, y, result, context.threads,
        [&](auto a, auto b) { return in_ring<Ring>(function, a, b); });
  });
  return result;
}

// Storage in low precision: numbers are computed in float32 and stored in fewer
// bits.
//
// Rounding is to nearest, ties to even (IEEE 754-2019, 4.3.1). Numbers beyond
// the range of float16 become infinite; its subnormals are preserved.

enum class Storage : uint8_t { F32, BF16, F16 };
std::optional<Storage> find_storage(std::string_view name);  // "bf16"
std::string_view storage_name(Storage storage);
int64_t storage_bytes(Storage storage);  // of one element
// Returns half the distance from 1 to the next larger number.
double unit_roundoff(Storage storage);
// Returns half of the smallest number above 0. Unless a number overflows, the
// error of rounding it is at most the unit roundoff times the number plus this
// (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section
// 2.1).
double underflow_unit(Storage storage);

float rounded(float number, Storage storage);
// Rounds every number in place; for a view, only the numbers that it covers.
// REQUIRES: the tensor is of float32.
void round_to(const Tensor& tensor, Storage storage, int threads = 1);

}  // namespace shardplan
