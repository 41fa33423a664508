// SPDX-License-Identifier: Apache-2.0
// Sums, differences, products and quotients of two tensors, broadcast.
#include "graph/elementwise.h"
#include "graph/field.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

struct Add {
  explicit Add(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T a, T b) const {
    return a + b;
  }
  double field(double a, double b) const { return field::add(a, b); }
};

struct Subtract {
  explicit Subtract(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T a, T b) const {
    return a - b;
  }
  double field(double a, double b) const { return field::residue(a - b); }
};

struct Multiply {
  explicit Multiply(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T a, T b) const {
    return a * b;
  }
  double field(double a, double b) const { return field::multiply(a, b); }
};

struct Divide {
  explicit Divide(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T a, T b) const {
    return a / b;
  }
  double field(double a, double b) const {
    return field::multiply(a, field::inverse(b));
  }
};

template <typename Function>
OpDef binary(std::string_view name, std::string_view summary,
             Linearity linearity) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.min_operands = 2;
  op.max_operands = 2;
  op.linearity = linearity;
  op.factors = "every dimension, where it is not broadcast";
  op.infer = infer_broadcast;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<1>;
  op.run = run_binary<Function>;
  return op;
}

}  // namespace

OpDef add_op() {
  return binary<Add>("add", "x + y, broadcast", Linearity::Additive);
}

OpDef subtract_op() {
  return binary<Subtract>("subtract", "x - y, broadcast", Linearity::Additive);
}

OpDef multiply_op() {
  return binary<Multiply>("multiply", "x y, element by element, broadcast",
                          Linearity::Multilinear);
}

OpDef divide_op() {
  return binary<Divide>("divide", "x / y, broadcast", Linearity::None);
}

}  // namespace shardplan
