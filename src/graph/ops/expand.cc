// SPDX-License-Identifier: Apache-2.0
// Expand: repeats numbers along dimensions of size 1, or along new leading
// dimensions (NumPy's broadcast_to).
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_expanded(std::span<const Shape> operands,
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

ShardingRule expansion_rule(std::span<const Shape> operands,
                            const Attributes& attributes) {
  ShardingRule rule;
  const Shape& x = operands[0];
  for (const int64_t size : integers_of(attributes, "shape")) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Pass));
  }
  std::vector<DimFactors>& own = rule.operands.emplace_back();
  const size_t added = rule.result.size() - x.size();
  for (size_t i = 0; i < x.size(); ++i) {
    own.push_back(x[i] == 1 ? DimFactors() : rule.result[added + i]);
  }
  return rule;
}

Tensor run_expanded(std::span<const Tensor> operands,
                    const Attributes& /*attributes*/,
                    const RunContext& context) {
  Shape shape;
  for (const DimFactors& dim : context.rule->result) {
    shape.push_back(range_of(dim, context).size);
  }
  return copy(broadcast_to(operands[0], shape));
}

}  // namespace

OpDef expand_op() {
  OpDef op;
  op.name = "expand";
  op.summary = "x broadcast along sizes of 1 and missing leading dimensions";
  op.linearity = Linearity::Additive;
  op.attributes = {
      {"shape", AttributeDef::Kind::Integers, true, "the result's shape"}};
  op.factors = "every dimension";
  op.infer = infer_expanded;
  op.rule = expansion_rule;
  op.flops = flops_per_element<0>;
  op.run = run_expanded;
  op.recompute_cost = RecomputeCost::View;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

}  // namespace shardplan
