// SPDX-License-Identifier: Apache-2.0
// Operations that derive positions in a sequence from its tokens.
#include <algorithm>
#include <string>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {

// Positions of tokens that do not count padding, as in fairseq and RoBERTa. The
// first token that is not padding has position padding + 1. Padding itself has
// position `padding`, so it has its own row in the table of positions.

namespace {

std::optional<Shape> infer_positions(std::span<const Shape> operands,
                                     const Attributes& attributes, Span where,
                                     Diagnostics& diags) {
  const auto padding = find_integer(attributes, "padding", 0, where, diags);
  if (!padding) return std::nullopt;
  if (operands[0].size() == 2 && *padding >= 0) return operands[0];
  return refuse(diags, where,
                "cannot count tokens " + shape_text(operands[0]) +
                    " without the padding token " + std::to_string(*padding),
                "give tokens [batch, length], and `padding` 0 or more");
}

// The length is whole, because a token's position depends on earlier tokens.
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
      "positions of tokens [B, L], from padding + 1; padding has position "
      "`padding`";
  op.attributes = {{"padding", AttributeDef::Kind::Number, true,
                    "the padding token, which is not counted"}};
  op.factors = "the batch";
  op.gives_integers = true;
  op.infer = infer_positions;
  op.rule = positions_rule;
  op.flops = flops_per_element<0>;
  op.run = run_positions;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

// Selects one row per sequence: that of the last token that is not `token`,
// which is padding (decoders that score the whole), or that of the last token
// that is (BART's end of a text). If there is no such token, it selects the
// first row.

namespace {

std::optional<Shape> infer_last(std::span<const Shape> operands,
                                const Attributes& attributes, Span where,
                                Diagnostics& diags) {
  const auto token = find_integer(attributes, "token", 0, where, diags);
  if (!token) return std::nullopt;
  const Shape& x = operands[0];
  const Shape& ids = operands[1];
  if (x.size() == 3 && ids.size() == 2 && x[1] > 0 && *token >= 0 &&
      std::equal(ids.begin(), ids.end(), x.begin())) {
    return Shape{x[0], x[2]};
  }
  return refuse(
      diags, where,
      "cannot take rows of " + shape_text(x) + " by tokens " + shape_text(ids),
      "give x [B, L, C], tokens [B, L], and `token` 0 or more");
}

ShardingRule last_rule(std::span<const Shape> operands,
                       const Attributes& /*attributes*/) {
  ShardingRule rule;
  const Shape& x = operands[0];
  const DimFactors batch = add_factor(rule, x[0], FactorKind::Pass);
  const DimFactors length = add_factor(rule, x[1], FactorKind::Whole);
  const DimFactors width = add_factor(rule, x[2], FactorKind::Pass);
  rule.result = {batch, width};
  rule.operands = {{batch, length, width}, {batch, length}};
  return rule;
}

Tensor run_last(std::span<const Tensor> operands, const Attributes& attributes,
                const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor ids = contiguous(operands[1]);
  const int64_t length = x.shape[1];
  const int64_t width = x.shape[2];
  const Tensor result =
      make_tensor(element_of(context.arithmetic), {x.shape[0], width});
  const int64_t token = integer_of(attributes, "token", 0);
  const bool equal = number_of(attributes, "equal", 0) != 0;
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    for (int64_t row = 0; row < x.shape[0]; ++row) {
      const T* id = ids.data<T>() + row * length;
      int64_t last = length - 1;
      while (last > 0 && (id[last] == static_cast<T>(token)) != equal) --last;
      std::copy_n(x.data<T>() + (row * length + last) * width, width,
                  result.data<T>() + row * width);
    }
  });
  return result;
}

}  // namespace

OpDef last_token_op() {
  OpDef op;
  op.name = "last_token";
  op.summary =
      "the row of x [B, L, C] at the last token of [B, L] that is not `token`";
  op.min_operands = 2;
  op.max_operands = 2;
  using Kind = AttributeDef::Kind;
  op.attributes = {{"token", Kind::Number, true, "the token to compare with"},
                   {"equal", Kind::Number, false,
                    "1: take the last token equal to `token`; default 0"}};
  op.linearity = Linearity::Multilinear;
  op.linear_in = {0};
  op.factors = "every dimension but L";
  op.infer = infer_last;
  op.rule = last_rule;
  op.flops = flops_per_element<0>;
  op.run = run_last;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::All, .only = {1}};
  return op;
}

}  // namespace shardplan
