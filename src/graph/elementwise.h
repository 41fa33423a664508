// SPDX-License-Identifier: Apache-2.0
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
// (graph/field.h).
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <type_traits>

#include "graph/field.h"
#include "graph/op_shapes.h"
#include "graph/strided.h"

namespace shardplan {

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
  const Tensor result = make_tensor(element_of(context.arithmetic), x.shape);
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
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
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

}  // namespace shardplan
