// SPDX-License-Identifier: Apache-2.0
// xIELU, an activation with parameters (Huang and Schlag, "Deriving Activation
// Functions Using Integration", 2024): with a = softplus(alpha_p) and
// b = beta + softplus(alpha_n),
//
//   a x^2 + beta x                             where x > 0,
//   b (exp(min(x, epsilon)) - 1 - x) + beta x  elsewhere.
//
// Slightly below 0, epsilon keeps exp(..) - 1 - x from vanishing near x = 0.
#include <cmath>
#include <string>
#include <vector>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_xielu(std::span<const Shape> operands,
                                 const Attributes& /*attributes*/, Span where,
                                 Diagnostics& diags) {
  for (const Shape& each : operands.subspan(1)) {
    if (count_of(each) == 1) continue;
    return refuse(diags, where,
                  "a parameter of xielu has the shape " + shape_text(each),
                  "give alpha_p, alpha_n, beta and epsilon as one value each");
  }
  return operands[0];
}

ShardingRule xielu_rule(std::span<const Shape> operands,
                        const Attributes& attributes) {
  ShardingRule rule = elementwise_rule(operands.first(1), attributes);
  for (const Shape& each : operands.subspan(1)) {
    rule.operands.emplace_back(each.size());
  }
  return rule;
}

template <typename T>
T softplus(T x) {
  return (x > 0 ? x : T{0}) + std::log1p(std::exp(-std::abs(x)));
}

template <typename T>
T only_number(const Tensor& tensor) {
  return *tensor.data<T>();
}

Tensor run_xielu(std::span<const Tensor> operands,
                 const Attributes& /*attributes*/, const RunContext& context) {
  const Tensor& x = operands[0];
  const Tensor result = make_tensor(element_of(context.arithmetic), x.shape);
  if (context.arithmetic == Arithmetic::Field) {
    const double positive = only_number<double>(operands[1]);
    const double negative = only_number<double>(operands[2]);
    const double beta = only_number<double>(operands[3]);
    const double epsilon = only_number<double>(operands[4]);
    map_unary<double>(x, result, context.threads, [&](double v) {
      double sum = field::multiply(positive, field_cubic(v, {67, 3, 71, 12}));
      for (const double more :
           {field::multiply(negative, field_cubic(v, {73, 79, 5, 18})),
            field::multiply(beta, v),
            field::multiply(epsilon, field_cubic(v, {2, 83, 21, 89}))}) {
        sum = field::add(sum, more);
      }
      return sum;
    });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    const T beta = only_number<T>(operands[3]);
    const T epsilon = only_number<T>(operands[4]);
    const T positive = softplus(only_number<T>(operands[1]));
    const T negative = beta + softplus(only_number<T>(operands[2]));
    map_unary<T>(x, result, context.threads, [&](T v) {
      const T linear = beta * v;
      if (v > 0) return positive * v * v + linear;
      // NaN propagates.
      return (std::expm1(v < epsilon ? v : epsilon) - v) * negative + linear;
    });
  });
  return result;
}

}  // namespace

OpDef xielu_op() {
  OpDef op;
  op.name = "xielu";
  op.summary =
      "xIELU of x, with alpha_p, alpha_n, beta and epsilon, one value each";
  op.min_operands = 5;
  op.max_operands = 5;
  op.factors = "every dimension of x";
  op.infer = infer_xielu;
  op.rule = xielu_rule;
  op.flops = flops_per_element<6>;
  op.run = run_xielu;
  op.recompute_cost = RecomputeCost::Pointwise;
  op.gradient = {.operands = ReadOperands::All};
  op.inner_steps = [](const Attributes&) { return InnerSteps::Power; };
  return op;
}

}  // namespace shardplan
