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

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_position_scaled(ShapeSpan operands,
                                           const Attributes& attributes,
                                           Span where, Diagnostics& diags) {
  if (!find_dim_of(attributes, operands[0], where, diags)) return std::nullopt;
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

double factor_at(const Attributes& attributes, int64_t position) {
  const double steps = std::floor(
      (static_cast<double>(position) + number_of(attributes, "offset", 0)) /
      number_of(attributes, "every", 1));
  return 1 + number_of(attributes, "by", 0) * std::log1p(steps);
}

Tensor run_position_scaled(TensorSpan operands, const Attributes& attributes,
                           const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const size_t dim = dim_of(attributes, result.shape.size());
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
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    auto* numbers = result.data<typename Ring::Number>();
    for (int64_t i = 0, end = result.elements(); i < end; ++i) {
      const auto position = static_cast<size_t>(i / inner % count);
      numbers[i] = Ring::multiply(numbers[i], Ring::of(factors[position]));
    }
  });
  return result;
}

}  // namespace

OpDef position_scale_op() {
  return {
      .name = "position_scale",
      .summary = "x times 1 + by log(1 + floor((position + offset) / every))",
      .linearity = Linearity::Additive,
      .attributes = {{"dim", Kind::Number, false,
                      "the dimension of positions; default 1"},
                     {"every", Kind::Number, true, "positions per step"},
                     {"by", Kind::Number, true, "factor on the logarithm"},
                     {"offset", Kind::Number, false,
                      "the first position; default 0"}},
      .factors = "every dimension",
      .infer = infer_position_scaled,
      .rule = elementwise_rule,
      .flops = flops_per_element<1>,
      .run = run_position_scaled,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::None}};
}

}  // namespace shardplan
