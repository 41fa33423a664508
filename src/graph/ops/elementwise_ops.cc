// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: sums, differences, products, quotients and maxima of
// two tensors, broadcast; further below, functions of one tensor.
#include <cmath>
#include <limits>
#include <string>

#include "base/text.h"
#include "graph/elementwise.h"
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

// Returns NaN if either operand is NaN.
struct Maximum {
  explicit Maximum(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T a, T b) const {
    return a > b || std::isnan(a) ? a : b;
  }
  double field(double a, double b) const { return field::maximum(a, b); }
};

// In the field, divisors are inverted before they are broadcast, because an
// inverse costs forty products.
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
  op.factors = "every dimension that is not broadcast";
  op.infer = infer_broadcast;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<1>;
  op.run = run_binary<Function>;
  return op;
}

}  // namespace

OpDef add_op() {
  OpDef op = binary<Add>("add", "x + y, broadcast", Linearity::Additive);
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::None};
  op.second_sign = 1;
  return op;
}

OpDef subtract_op() {
  OpDef op =
      binary<Subtract>("subtract", "x - y, broadcast", Linearity::Additive);
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::None};
  op.second_sign = -1;
  return op;
}

OpDef multiply_op() {
  OpDef op =
      binary<Multiply>("multiply", "x * y, broadcast", Linearity::Multilinear);
  op.recompute_cost = RecomputeCost::Pointwise;
  op.gradient = {.operands = ReadOperands::OfOthers};
  return op;
}

OpDef divide_op() {
  OpDef op = binary<Divide>("divide", "x / y, broadcast", Linearity::None);
  op.run = run_divide;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::All};
  return op;
}

OpDef maximum_op() {
  OpDef op = binary<Maximum>("maximum", "the larger of x and y, broadcast",
                             Linearity::None);
  op.recompute_cost = RecomputeCost::Pointwise;
  op.gradient = {.operands = ReadOperands::All};
  op.picks_operand = true;
  return op;
}

// Powers, exponentials and multiples of a tensor, element by element.

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

// It is not additive: on partial sums, the constant would be added once per
// part.
class Shift {
 public:
  explicit Shift(const Attributes& attributes)
      : by_(number_of(attributes, "by", 0)), residue_(field::constant(by_)) {}
  template <typename T>
  T real(T x) const {
    return x + static_cast<T>(by_);
  }
  double field(double x) const { return field::add(x, residue_); }

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
  op.recompute_cost = RecomputeCost::Pointwise;
  return op;
}

}  // namespace

OpDef scale_op() {
  OpDef op = unary<Scale>("scale", "x times a constant");
  op.linearity = Linearity::Additive;
  op.attributes = {
      {"by", AttributeDef::Kind::Number, true, "the number to multiply by"}};
  op.is_multiple = true;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

OpDef shift_op() {
  OpDef op = unary<Shift>("shift", "x plus a constant");
  op.attributes = {
      {"by", AttributeDef::Kind::Number, true, "the number to add"}};
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

OpDef negate_op() {
  OpDef op = unary<Negate>("negate", "-x");
  op.linearity = Linearity::Additive;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

OpDef square_op() {
  OpDef op = unary<Square>("square", "x squared, element by element");
  op.gradient = {.operands = ReadOperands::All};
  op.inner_steps = [](const Attributes&) { return InnerSteps::Power; };
  return op;
}

OpDef exp_op() {
  OpDef op = unary<Exp>("exp", "e to the power of x");
  op.gradient = {.operands = ReadOperands::None, .result = true};
  return op;
}

OpDef rsqrt_op() {
  OpDef op = unary<Rsqrt>("rsqrt", "1 / sqrt(x + epsilon)");
  op.attributes = {{"epsilon", AttributeDef::Kind::Number, false,
                    "added before the root; default 0"}};
  op.flops = flops_per_element<3>;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::None, .result = true};
  return op;
}

// Activation functions. No intermediate value overflows, because exp is only
// computed for numbers that are not positive.

namespace {

template <typename T>
T sigmoid(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const T e = std::exp(x);
  return e / (1 + e);
}

// Their surrogates in the field are cubic polynomials, no two alike.

struct Relu {
  explicit Relu(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return x < 0 ? T{0} : x;  // keeps NaN
  }
  double field(double x) const { return field_cubic(x, {7, 5, 11, 2}); }
};

bool is_by_tanh(const Attributes& attributes) {
  return text_of(attributes, "approximate", "tanh") == "tanh";
}

// GELU: x Phi(x) (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016),
// or its approximation by tanh, which is jax.nn.gelu's default.
class Gelu {
 public:
  explicit Gelu(const Attributes& attributes)
      : by_tanh_(is_by_tanh(attributes)) {}
  template <typename T>
  T real(T x) const {
    if (!by_tanh_) {
      constexpr double kSqrtHalf = 0.70710678118654752440;
      return x * (std::erfc(-x * static_cast<T>(kSqrtHalf)) / 2);
    }
    constexpr double kSqrt2OverPi = 0.79788456080286535588;
    const T u = static_cast<T>(kSqrt2OverPi) *
                (x + static_cast<T>(0.044715) * x * x * x);
    return x * sigmoid(2 * u);  // (1 + tanh(u)) / 2, without cancellation
  }
  double field(double x) const {
    return by_tanh_ ? field_cubic(x, {13, 524287, 17, 4})
                    : field_cubic(x, {19, 524287, 23, 6});
  }

 private:
  bool by_tanh_;
};

struct Silu {
  explicit Silu(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return x * sigmoid(x);
  }
  double field(double x) const { return field_cubic(x, {29, 31, 8, 37}); }
};

struct Tanh {
  explicit Tanh(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return std::tanh(x);
  }
  double field(double x) const { return field_cubic(x, {41, 1, 43, 349524}); }
};

struct Sigmoid {
  explicit Sigmoid(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return sigmoid(x);
  }
  double field(double x) const { return field_cubic(x, {47, 262143, 53, 9}); }
};

// Returns ln(1 + e to the power of x).
struct Softplus {
  explicit Softplus(const Attributes& /*attributes*/) {}
  template <typename T>
  T real(T x) const {
    return (x > 0 ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
  }
  double field(double x) const { return field_cubic(x, {59, 61, 349523, 10}); }
};

std::optional<Shape> infer_gelu(std::span<const Shape> operands,
                                const Attributes& attributes, Span where,
                                Diagnostics& diags) {
  const std::string_view kind = text_of(attributes, "approximate", "tanh");
  if (kind == "tanh" || kind == "none") return operands[0];
  return diags
      .error(Code::InvalidGraph, where,
             "`approximate` of gelu is " + in_backticks(kind))
      .help("write `tanh` (the default) or `none`");
}

class Clamp {
 public:
  explicit Clamp(const Attributes& attributes)
      : least_(number_of(attributes, "min",
                         -std::numeric_limits<double>::infinity())),
        most_(number_of(attributes, "max",
                        std::numeric_limits<double>::infinity())) {}
  template <typename T>
  T real(T x) const {
    if (x < static_cast<T>(least_)) return static_cast<T>(least_);
    return x > static_cast<T>(most_) ? static_cast<T>(most_) : x;  // keeps NaN
  }
  double field(double x) const { return field_cubic(x, {59, 3, 61, 14}); }

 private:
  double least_;
  double most_;
};

std::optional<Shape> infer_clamped(std::span<const Shape> operands,
                                   const Attributes& attributes, Span where,
                                   Diagnostics& diags) {
  const bool bounded = attributes.contains("min") || attributes.contains("max");
  const double infinite = std::numeric_limits<double>::infinity();
  if (bounded && number_of(attributes, "min", -infinite) <=
                     number_of(attributes, "max", infinite)) {
    return operands[0];
  }
  return refuse(diags, where,
                bounded ? "`min` of clamp exceeds `max`"
                        : "clamp has neither `min` nor `max`",
                "give one of them, or both");
}

// `Steps` is the number of steps per element; for gelu, that of its default.
template <typename Function, int64_t Steps>
OpDef activation(std::string_view name, std::string_view summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.factors = "every dimension";
  op.infer = infer_same;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<Steps>;
  op.run = run_unary<Function>;
  op.recompute_cost = RecomputeCost::Pointwise;
  return op;
}

}  // namespace

OpDef relu_op() {
  OpDef op = activation<Relu, 1>("relu", "max(x, 0)");
  op.gradient = {.operands = ReadOperands::None, .result = true};
  return op;
}

OpDef gelu_op() {
  OpDef op = activation<Gelu, 9>("gelu",
                                 "x Phi(x), Phi being the standard normal CDF");
  op.attributes = {{"approximate", AttributeDef::Kind::Text, false,
                    "`tanh` (default) or `none`, as in PyTorch"}};
  op.infer = infer_gelu;
  op.gradient = {.operands = ReadOperands::All};
  op.inner_steps = [](const Attributes& attributes) {
    return is_by_tanh(attributes) ? InnerSteps::Tanh : InnerSteps::None;
  };
  return op;
}

OpDef clamp_op() {
  OpDef op = activation<Clamp, 2>("clamp", "x limited to the range [min, max]");
  op.attributes = {
      {"min", AttributeDef::Kind::Number, false, "lower bound; default none"},
      {"max", AttributeDef::Kind::Number, false, "upper bound; default none"}};
  op.infer = infer_clamped;
  op.gradient = {.operands = ReadOperands::All};
  return op;
}

OpDef silu_op() {
  OpDef op = activation<Silu, 5>("silu", "x sigmoid(x)");
  op.gradient = {.operands = ReadOperands::All};
  op.inner_steps = [](const Attributes&) { return InnerSteps::Sigmoid; };
  return op;
}

OpDef tanh_op() {
  OpDef op = activation<Tanh, 1>("tanh", "hyperbolic tangent");
  op.gradient = {.operands = ReadOperands::None, .result = true};
  return op;
}

OpDef softplus_op() {
  OpDef op = activation<Softplus, 4>("softplus", "ln(1 + e to the power of x)");
  op.gradient = {.operands = ReadOperands::All};
  return op;
}

OpDef sigmoid_op() {
  OpDef op =
      activation<Sigmoid, 4>("sigmoid", "1 / (1 + e to the power of -x)");
  op.gradient = {.operands = ReadOperands::None, .result = true};
  return op;
}

}  // namespace shardplan
