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
#include <vector>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_xielu(ShapeSpan operands, const Attributes&,
                                 Span where, Diagnostics& diags) {
  for (const Shape& each : operands.subspan(1)) {
    if (count_of(each) == 1) continue;
    return refuse(diags, where,
                  "a parameter of xielu has the shape " + shape_text(each),
                  "give alpha_p, alpha_n, beta and epsilon as one value each");
  }
  return operands[0];
}

ShardingRule xielu_rule(ShapeSpan operands, const Attributes& attributes) {
  ShardingRule rule = elementwise_rule(operands.first(1), attributes);
  for (const Shape& each : operands.subspan(1)) {
    rule.operands.emplace_back(each.size());
  }
  return rule;
}

Tensor run_xielu(TensorSpan operands, const Attributes&,
                 const RunContext& context) {
  const Tensor& x = operands[0];
  const Tensor result = make_tensor(element_of(context.arithmetic), x.shape);
  if (context.arithmetic == Arithmetic::Field) {
    const double positive = *operands[1].data<double>();
    const double negative = *operands[2].data<double>();
    const double beta = *operands[3].data<double>();
    const double epsilon = *operands[4].data<double>();
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
  for_element_type(x.element, [&]<typename T>(std::type_identity<T>) {
    const T beta = *operands[3].data<T>();
    const T epsilon = *operands[4].data<T>();
    const T positive = softplus(*operands[1].data<T>());
    const T negative = beta + softplus(*operands[2].data<T>());
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
  return {
      .name = "xielu",
      .summary =
          "xIELU of x, with alpha_p, alpha_n, beta and epsilon, one value each",
      .min_operands = 5,
      .factors = "every dimension of x",
      .infer = infer_xielu,
      .rule = xielu_rule,
      .flops = flops_per_element<6>,
      .run = run_xielu,
      .recompute_cost = RecomputeCost::Pointwise,
      .gradient = {.operands = ReadOperands::All},
      .inner_steps = [](const Attributes&) { return InnerSteps::Power; }};
}

}  // namespace shardplan
