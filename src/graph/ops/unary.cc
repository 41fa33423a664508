// SPDX-License-Identifier: Apache-2.0
// Powers, exponentials and multiples of a tensor, element by element.
#include <cmath>

#include "graph/elementwise.h"
#include "graph/field.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

class Scale {
 public:
  explicit Scale(const Attributes& attributes)
      : by_(number_of(attributes, "by", 1)), residue_(field::constant(by_)) {}
  template <typename T>
  T real(T x) const {
    return x * static_cast<T>(by_);
  }
  double field(double x) const { return field::multiply(x, residue_); }

 private:
  double by_;
  double residue_;
};

struct Negate {
  explicit Negate(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return -x;
  }
  double field(double x) const { return field::residue(-x); }
};

struct Square {
  explicit Square(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return x * x;
  }
  double field(double x) const { return field::multiply(x, x); }
};

struct Exp {
  explicit Exp(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return std::exp(x);
  }
  double field(double x) const { return field_cubic(x, {1, 1, 524287, 3}); }
};

class Rsqrt {
 public:
  explicit Rsqrt(const Attributes& attributes)
      : epsilon_(number_of(attributes, "epsilon", 0)),
        residue_(field::constant(epsilon_)) {}
  template <typename T>
  T real(T x) const {
    return 1 / std::sqrt(x + static_cast<T>(epsilon_));
  }
  double field(double x) const {
    return field::inverse(field::add(x, residue_));
  }

 private:
  double epsilon_;
  double residue_;
};

template <typename Function>
OpDef unary(std::string_view name, std::string_view summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.factors = "every dimension";
  op.infer = infer_same;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<1>;
  op.run = run_unary<Function>;
  return op;
}

}  // namespace

OpDef scale_op() {
  OpDef op = unary<Scale>("scale", "x times a number of the graph");
  op.linearity = Linearity::Additive;
  op.attributes = {
      {"by", AttributeDef::Kind::Number, true, "the number to multiply by"}};
  return op;
}

OpDef negate_op() {
  OpDef op = unary<Negate>("negate", "-x");
  op.linearity = Linearity::Additive;
  return op;
}

OpDef square_op() { return unary<Square>("square", "x x, element by element"); }

OpDef exp_op() { return unary<Exp>("exp", "e to the power of x"); }

OpDef rsqrt_op() {
  OpDef op = unary<Rsqrt>("rsqrt", "1 / sqrt(x + epsilon)");
  op.attributes = {{"epsilon", AttributeDef::Kind::Number, false,
                    "added before the root; default 0"}};
  op.flops = flops_per_element<3>;
  return op;
}

}  // namespace shardplan
