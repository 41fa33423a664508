// SPDX-License-Identifier: Apache-2.0
// Positions of tokens where padding is left out of the count, as in fairseq
// and RoBERTa: the first token that is none stands at padding + 1, and padding
// itself at `padding`, whose row of the table of positions is its own.
#include <string>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_positions(std::span<const Shape> operands,
                                     const Attributes& attributes, Span where,
                                     Diagnostics& diags) {
  const auto padding = find_integer(attributes, "padding", 0, where, diags);
  if (!padding) return std::nullopt;
  if (operands[0].size() == 2 && *padding >= 0) return operands[0];
  return refuse(diags, where,
                "cannot count tokens " + shape_text(operands[0]) +
                    " without those that are " + std::to_string(*padding),
                "give tokens [batch, length], and `padding` 0 or more");
}

// Earlier tokens decide where a token stands.
ShardingRule positions_rule(std::span<const Shape> operands,
                            const Attributes& /*attributes*/) {
  ShardingRule rule;
  rule.result.push_back(add_factor(rule, operands[0][0], FactorKind::Pass));
  rule.result.push_back(add_factor(rule, operands[0][1], FactorKind::Whole));
  rule.operands.push_back(rule.result);
  return rule;
}

Tensor run_positions(std::span<const Tensor> operands,
                     const Attributes& attributes, const RunContext& context) {
  const Tensor ids = contiguous(operands[0]);
  const Tensor result = make_tensor(element_of(context.arithmetic), ids.shape);
  const int64_t padding = integer_of(attributes, "padding", 0);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* id = ids.data<T>();
    T* position = result.data<T>();
    for (int64_t row = 0; row < ids.shape[0]; ++row) {
      int64_t seen = 0;
      for (int64_t i = 0; i < ids.shape[1]; ++i, ++id, ++position) {
        const bool counts = *id != static_cast<T>(padding);
        if (counts) ++seen;
        *position = static_cast<T>(padding + (counts ? seen : 0));
      }
    }
  });
  return result;
}

}  // namespace

OpDef token_positions_op() {
  OpDef op;
  op.name = "token_positions";
  op.summary =
      "positions of tokens [B, L], from padding + 1; of padding: `padding`";
  op.attributes = {{"padding", AttributeDef::Kind::Number, true,
                    "the token that is not counted"}};
  op.factors = "the batch";
  op.gives_integers = true;
  op.infer = infer_positions;
  op.rule = positions_rule;
  op.flops = flops_per_element<0>;
  op.run = run_positions;
  return op;
}

}  // namespace shardplan
