// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: sums, differences, products, quotients and maxima of
// two tensors, broadcast; functions of one tensor, and activation functions.
#include <cmath>
#include <limits>
#include <string>

#include "base/text.h"
#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A function without attributes, made of two lambdas.
template <typename Real, typename Field>
struct WithSurrogate {
  explicit WithSurrogate(const Attributes&) {}
  Real real;
  Field field;
};

// A polynomial as a surrogate.
template <int... Coefficients>
struct Cubic {
  double operator()(double x) const {
    return field_cubic(x, {Coefficients...});
  }
};

// A function that every ring has.
template <typename OfRing>
struct InRing {
  explicit InRing(const Attributes&) {}
  auto real(auto x, auto y) const {
    return OfRing()(RealRing<decltype(x)>(), x, y);
  }
  double field(double x, double y) const { return OfRing()(FieldRing(), x, y); }
};

// An operation on two operands; `Function` is as in graph/elementwise.h.
template <typename Function>
OpDef binary(std::string_view name, std::string_view summary,
             Linearity linearity, RecomputeCost cost, GradientReads gradient) {
  return {.name = name,
          .summary = summary,
          .min_operands = 2,
          .linearity = linearity,
          .factors = "every dimension that is not broadcast",
          .infer = infer_broadcast,
          .rule = elementwise_rule,
          .flops = flops_per_element<1>,
          .run = run_binary<Function>,
          .recompute_cost = cost,
          .gradient = std::move(gradient)};
}
template <typename OfRing>
OpDef binary(std::string_view name, std::string_view summary,
             Linearity linearity, RecomputeCost cost, GradientReads gradient,
             OfRing) {
  return binary<InRing<OfRing>>(name, summary, linearity, cost,
                                std::move(gradient));
}

// An operation on one operand.
template <typename Function, int64_t Steps = 1>
OpDef unary(std::string_view name, std::string_view summary,
            GradientReads gradient) {
  return {.name = name,
          .summary = summary,
          .factors = "every dimension",
          .infer = infer_same,
          .rule = elementwise_rule,
          .flops = flops_per_element<Steps>,
          .run = run_unary<Function>,
          .recompute_cost = RecomputeCost::Pointwise,
          .gradient = std::move(gradient)};
}
template <int64_t Steps = 1, typename Real, typename Field>
OpDef unary(std::string_view name, std::string_view summary,
            GradientReads gradient, Real, Field) {
  return unary<WithSurrogate<Real, Field>, Steps>(name, summary,
                                                  std::move(gradient));
}

struct Divide {
  explicit Divide(const Attributes&) {}
  auto real(auto x, auto y) const { return x / y; }
  double field(double x, double inverse) const {
    return field::multiply(x, inverse);
  }
};

// In the field, divisors are inverted before they are broadcast, because an
// inverse costs forty products.
Tensor run_divide(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
  std::vector<Tensor> both(operands.begin(), operands.end());
  if (context.arithmetic == Arithmetic::Field) {
    both[1] = make_tensor(Element::F64, operands[1].shape);
    map_unary<double>(operands[1], both[1], context.threads, field::inverse);
  }
  return run_binary<Divide>(both, attributes, context);
}

// A number among the attributes.
struct Constant {
  Constant(const Attributes& attributes, std::string_view name)
      : number(number_of(attributes, name, 0)),
        residue(field::constant(number)) {}
  double number;
  double residue;
};

struct Scale : Constant {
  explicit Scale(const Attributes& attributes) : Constant(attributes, "by") {}
  auto real(auto x) const { return x * static_cast<decltype(x)>(number); }
  double field(double x) const { return field::multiply(x, residue); }
};

// It is not additive: on partial sums, the constant would be added once per
// part.
struct Shift : Constant {
  explicit Shift(const Attributes& attributes) : Constant(attributes, "by") {}
  auto real(auto x) const { return x + static_cast<decltype(x)>(number); }
  double field(double x) const { return field::add(x, residue); }
};

struct Rsqrt : Constant {
  explicit Rsqrt(const Attributes& attributes)
      : Constant(attributes, "epsilon") {}
  auto real(auto x) const {
    return 1 / std::sqrt(x + static_cast<decltype(x)>(number));
  }
  double field(double x) const {
    return field::inverse(field::add(x, residue));
  }
};

// In activation functions, no intermediate value overflows, because exp is only
// computed for numbers that are not positive. Their surrogates in the field are
// cubic polynomials, no two alike.

template <typename T>
T sigmoid(T x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const T e = std::exp(x);
  return e / (1 + e);
}

bool is_by_tanh(const Attributes& attributes) {
  return text_of(attributes, "approximate", "tanh") == "tanh";
}

// GELU: x Phi(x) (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016),
// or its approximation by tanh, which is jax.nn.gelu's default.
struct Gelu {
  explicit Gelu(const Attributes& attributes)
      : by_tanh(is_by_tanh(attributes)) {}
  template <typename T>
  T real(T x) const {
    if (!by_tanh) {
      constexpr double kSqrtHalf = 0.70710678118654752440;
      return x * (std::erfc(-x * static_cast<T>(kSqrtHalf)) / 2);
    }
    constexpr double kSqrt2OverPi = 0.79788456080286535588;
    const T u = static_cast<T>(kSqrt2OverPi) *
                (x + static_cast<T>(0.044715) * x * x * x);
    return x * sigmoid(2 * u);  // (1 + tanh(u)) / 2, without cancellation
  }
  double field(double x) const {
    return by_tanh ? field_cubic(x, {13, 524287, 17, 4})
                   : field_cubic(x, {19, 524287, 23, 6});
  }

  bool by_tanh;
};

std::optional<Shape> infer_gelu(ShapeSpan operands,
                                const Attributes& attributes, Span where,
                                Diagnostics& diags) {
  const std::string_view kind = text_of(attributes, "approximate", "tanh");
  if (kind == "tanh" || kind == "none") return operands[0];
  return refuse(diags, where, "`approximate` of gelu is " + in_backticks(kind),
                "write `tanh` (the default) or `none`");
}

struct Clamp {
  explicit Clamp(const Attributes& attributes)
      : least(number_of(attributes, "min", -kInfinite)),
        most(number_of(attributes, "max", kInfinite)) {}
  template <typename T>
  T real(T x) const {
    if (x < static_cast<T>(least)) return static_cast<T>(least);
    return x > static_cast<T>(most) ? static_cast<T>(most) : x;  // keeps NaN
  }
  double field(double x) const { return field_cubic(x, {59, 3, 61, 14}); }

  double least;
  double most;
};

std::optional<Shape> infer_clamped(ShapeSpan operands,
                                   const Attributes& attributes, Span where,
                                   Diagnostics& diags) {
  const bool bounded = attributes.contains("min") || attributes.contains("max");
  const Clamp clamp(attributes);
  if (bounded && clamp.least <= clamp.most) return operands[0];
  return refuse(diags, where,
                bounded ? "`min` of clamp exceeds `max`"
                        : "clamp has neither `min` nor `max`",
                "give one of them, or both");
}

}  // namespace

OpDef add_op() {
  OpDef op = binary("add", "x + y, broadcast", Linearity::Additive,
                    RecomputeCost::Cheap, {.operands = ReadOperands::None},
                    [](auto ring, auto x, auto y) { return ring.add(x, y); });
  op.second_sign = 1;
  return op;
}

OpDef subtract_op() {
  OpDef op =
      binary("subtract", "x - y, broadcast", Linearity::Additive,
             RecomputeCost::Cheap, {.operands = ReadOperands::None},
             [](auto ring, auto x, auto y) { return ring.subtract(x, y); });
  op.second_sign = -1;
  return op;
}

OpDef multiply_op() {
  return binary("multiply", "x * y, broadcast", Linearity::Multilinear,
                RecomputeCost::Pointwise, {.operands = ReadOperands::OfOthers},
                [](auto ring, auto x, auto y) { return ring.multiply(x, y); });
}

OpDef divide_op() {
  OpDef op =
      binary<Divide>("divide", "x / y, broadcast", Linearity::None,
                     RecomputeCost::Cheap, {.operands = ReadOperands::All});
  op.run = run_divide;
  return op;
}

OpDef maximum_op() {
  OpDef op =
      binary("maximum", "the larger of x and y, broadcast", Linearity::None,
             RecomputeCost::Pointwise, {.operands = ReadOperands::All},
             [](auto ring, auto x, auto y) { return ring.maximum(x, y); });
  op.picks_operand = true;
  return op;
}

OpDef scale_op() {
  OpDef op = unary<Scale>("scale", "x times a constant",
                          {.operands = ReadOperands::None});
  op.linearity = Linearity::Additive;
  op.attributes = {{"by", Kind::Number, true, "the number to multiply by"}};
  op.is_multiple = true;
  return op;
}

OpDef shift_op() {
  OpDef op = unary<Shift>("shift", "x plus a constant",
                          {.operands = ReadOperands::None});
  op.attributes = {{"by", Kind::Number, true, "the number to add"}};
  return op;
}

OpDef negate_op() {
  OpDef op = unary(
      "negate", "-x", {.operands = ReadOperands::None},
      [](auto x) { return -x; }, [](double x) { return field::residue(-x); });
  op.linearity = Linearity::Additive;
  return op;
}

OpDef square_op() {
  OpDef op = unary(
      "square", "x squared, element by element",
      {.operands = ReadOperands::All}, [](auto x) { return x * x; },
      [](double x) { return field::multiply(x, x); });
  op.inner_steps = [](const Attributes&) { return InnerSteps::Power; };
  return op;
}

OpDef exp_op() {
  return unary(
      "exp", "e to the power of x",
      {.operands = ReadOperands::None, .result = true},
      [](auto x) { return std::exp(x); }, Cubic<1, 1, 524287, 3>());
}

OpDef rsqrt_op() {
  OpDef op = unary<Rsqrt, 3>("rsqrt", "1 / sqrt(x + epsilon)",
                             {.operands = ReadOperands::None, .result = true});
  op.attributes = {
      {"epsilon", Kind::Number, false, "added before the root; default 0"}};
  op.recompute_cost = RecomputeCost::Cheap;
  return op;
}

OpDef relu_op() {
  return unary(
      "relu", "max(x, 0)", {.operands = ReadOperands::None, .result = true},
      [](auto x) { return x < 0 ? decltype(x){0} : x; },  // keeps NaN
      Cubic<7, 5, 11, 2>());
}

// Counts the steps of the default, the approximation.
OpDef gelu_op() {
  OpDef op =
      unary<Gelu, 9>("gelu", "x Phi(x), Phi being the standard normal CDF",
                     {.operands = ReadOperands::All});
  op.attributes = {{"approximate", Kind::Text, false,
                    "`tanh` (default) or `none`, as in PyTorch"}};
  op.infer = infer_gelu;
  op.inner_steps = [](const Attributes& attributes) {
    return is_by_tanh(attributes) ? InnerSteps::Tanh : InnerSteps::None;
  };
  return op;
}

OpDef clamp_op() {
  OpDef op = unary<Clamp, 2>("clamp", "x limited to the range [min, max]",
                             {.operands = ReadOperands::All});
  op.attributes = {{"min", Kind::Number, false, "lower bound; default none"},
                   {"max", Kind::Number, false, "upper bound; default none"}};
  op.infer = infer_clamped;
  return op;
}

OpDef silu_op() {
  OpDef op = unary<5>(
      "silu", "x sigmoid(x)", {.operands = ReadOperands::All},
      [](auto x) { return x * sigmoid(x); }, Cubic<29, 31, 8, 37>());
  op.inner_steps = [](const Attributes&) { return InnerSteps::Sigmoid; };
  return op;
}

OpDef tanh_op() {
  return unary(
      "tanh", "hyperbolic tangent",
      {.operands = ReadOperands::None, .result = true},
      [](auto x) { return std::tanh(x); }, Cubic<41, 1, 43, 349524>());
}

OpDef softplus_op() {
  return unary<4>(
      "softplus", "ln(1 + e to the power of x)",
      {.operands = ReadOperands::All}, [](auto x) { return softplus(x); },
      Cubic<59, 61, 349523, 10>());
}

OpDef sigmoid_op() {
  return unary<4>(
      "sigmoid", "1 / (1 + e to the power of -x)",
      {.operands = ReadOperands::None, .result = true},
      [](auto x) { return sigmoid(x); }, Cubic<47, 262143, 53, 9>());
}

}  // namespace shardplan
