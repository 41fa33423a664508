// SPDX-License-Identifier: Apache-2.0
// Position scale: multiplies queries by a factor that grows with their
// position, so that attention over many keys stays as sharp as over few
// (Nakanishi, "Scalable-Softmax Is Superior for Attention", 2025, in the steps
// of Llama 4). The factor is 1 + by log(1 + floor((position + offset) /
// every)).
//
// Positions count from the start of the whole length, even on a device that has
// a part of it.
#include <cmath>
#include <string>
#include <vector>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_position_scaled(std::span<const Shape> operands,
                                           const Attributes& attributes,
                                           Span where, Diagnostics& diags) {
  const auto dim = find_integer(attributes, "dim", 1, where, diags);
  if (!dim || !find_dim(*dim, operands[0], where, diags)) return std::nullopt;
  const double every = number_of(attributes, "every", 1);
  const double offset = number_of(attributes, "offset", 0);
  if (every > 0 && std::isfinite(every) && offset >= 0 &&
      std::isfinite(offset) && std::isfinite(number_of(attributes, "by", 0))) {
    return operands[0];
  }
  return refuse(diags, where,
                "cannot scale by positions in steps of " +
                    std::to_string(every) + " from " + std::to_string(offset),
                "give `every` above 0, and `offset` 0 or more");
}

ShardingRule position_scale_rule(std::span<const Shape> operands,
                                 const Attributes& /*attributes*/) {
  ShardingRule rule;
  for (const int64_t size : operands[0]) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Pass));
  }
  rule.operands.push_back(rule.result);
  return rule;
}

double factor_at(const Attributes& attributes, int64_t position) {
  const double steps = std::floor(
      (static_cast<double>(position) + number_of(attributes, "offset", 0)) /
      number_of(attributes, "every", 1));
  return 1 + number_of(attributes, "by", 0) * std::log1p(steps);
}

Tensor run_position_scaled(std::span<const Tensor> operands,
                           const Attributes& attributes,
                           const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const auto dim = static_cast<size_t>(
      dim_at(integer_of(attributes, "dim", 1), result.shape.size()));
  const DimRange part = range_of(context.rule->operands[0][dim], context);
  int64_t inner = 1;  // numbers per position
  for (size_t d = dim + 1; d < result.shape.size(); ++d) {
    inner *= result.shape[d];
  }
  const int64_t count = result.shape[dim];
  std::vector<double> factors;
  for (int64_t i = 0; i < count; ++i) {
    factors.push_back(factor_at(attributes, part.begin + i));
  }
  const auto each_number = [&](auto* numbers, const auto& scaled) {
    for (int64_t i = 0; i < result.elements(); ++i) {
      const auto position = static_cast<size_t>(i / inner % count);
      numbers[i] = scaled(numbers[i], factors[position]);
    }
  };
  if (context.arithmetic == Arithmetic::Field) {
    each_number(result.data<double>(), [](double x, double factor) {
      return field::multiply(x, field::constant(factor));
    });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    each_number(result.data<T>(),
                [](T x, double factor) { return x * static_cast<T>(factor); });
  });
  return result;
}

}  // namespace

OpDef position_scale_op() {
  OpDef op;
  op.name = "position_scale";
  op.summary = "x times 1 + by log(1 + floor((position + offset) / every))";
  op.linearity = Linearity::Additive;
  using Kind = AttributeDef::Kind;
  op.attributes = {
      {"dim", Kind::Number, false, "the dimension of positions; default 1"},
      {"every", Kind::Number, true, "positions per step"},
      {"by", Kind::Number, true, "factor on the logarithm"},
      {"offset", Kind::Number, false, "the first position; default 0"}};
  op.factors = "every dimension";
  op.infer = infer_position_scaled;
  op.rule = position_scale_rule;
  op.flops = flops_per_element<1>;
  op.run = run_position_scaled;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

}  // namespace shardplan
