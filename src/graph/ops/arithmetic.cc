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
  double field(double a, double inverse) const {
    return field::multiply(a, inverse);
  }
};

// In the field, divisors are inverted before they are broadcast: an inverse is
// forty products.
Tensor run_divide(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& context) {
  std::vector<Tensor> both(operands.begin(), operands.end());
  if (context.arithmetic == Arithmetic::Field) {
    both[1] = make_tensor(Element::F64, operands[1].shape);
    map_unary<double>(operands[1], both[1], context.threads, field::inverse);
  }
  return run_binary<Divide>(both, attributes, context);
}

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
  OpDef op = binary<Divide>("divide", "x / y, broadcast", Linearity::None);
  op.run = run_divide;
  return op;
}

}  // namespace shardplan
