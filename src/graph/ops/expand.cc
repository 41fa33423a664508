// SPDX-License-Identifier: Apache-2.0
// Expand: repeats numbers along dimensions of size 1, or along new leading
// dimensions (NumPy's broadcast_to).
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_expanded(ShapeSpan operands,
                                    const Attributes& attributes, Span where,
                                    Diagnostics& diags) {
  const Shape& x = operands[0];
  const auto wanted = integers_of(attributes, "shape");
  Shape shape(wanted.begin(), wanted.end());
  bool fits = shape.size() >= x.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const size_t from_end = shape.size() - i;
    const int64_t own = from_end > x.size() ? 1 : x[x.size() - from_end];
    fits = shape[i] >= 0 && (own == 1 || own == shape[i]);
  }
  if (fits) return countable(std::move(shape), where, diags);
  return refuse(diags, where,
                "cannot expand " + shape_text(x) + " to " + shape_text(shape),
                "each size must equal the operand's, unless that is 1");
}

ShardingRule expansion_rule(ShapeSpan operands, const Attributes& attributes) {
  ShardingRule rule;
  const Shape& x = operands[0];
  rule.result = add_factors(rule, integers_of(attributes, "shape"));
  std::vector<DimFactors>& own = rule.operands.emplace_back();
  const size_t added = rule.result.size() - x.size();
  for (size_t i = 0; i < x.size(); ++i) {
    own.push_back(x[i] == 1 ? DimFactors() : rule.result[added + i]);
  }
  return rule;
}

Tensor run_expanded(TensorSpan operands, const Attributes&,
                    const RunContext& context) {
  return copy(broadcast_to(operands[0], result_shape(context)));
}

}  // namespace

OpDef expand_op() {
  return {
      .name = "expand",
      .summary = "x broadcast along sizes of 1 and missing leading dimensions",
      .linearity = Linearity::Additive,
      .attributes = {{"shape", Kind::Integers, true, "the result's shape"}},
      .factors = "every dimension",
      .infer = infer_expanded,
      .rule = expansion_rule,
      .flops = flops_per_element<0>,
      .run = run_expanded,
      .recompute_cost = RecomputeCost::View,
      .gradient = {.operands = ReadOperands::None}};
}

}  // namespace shardplan
