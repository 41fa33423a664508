// SPDX-License-Identifier: Apache-2.0
// Operations that derive positions in a sequence from its tokens.
//
// token_positions counts tokens but no padding, as in fairseq and RoBERTa. The
// first token that is not padding has position padding + 1. Padding itself has
// position `padding`, so it has its own row in the table of positions.
//
// last_token selects one row per sequence: that of the last token that is not
// `token`, which is padding (decoders that score the whole), or that of the
// last token that is (BART's end of a text). If there is no such token, it
// selects the first row.
#include <algorithm>
#include <string>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_positions(ShapeSpan operands,
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

Tensor run_positions(TensorSpan operands, const Attributes& attributes,
                     const RunContext& context) {
  const Tensor ids = contiguous(operands[0]);
  const Tensor result = make_tensor(element_of(context.arithmetic), ids.shape);
  const int64_t padding = integer_of(attributes, "padding", 0);
  for_element_type(ids.element, [&]<typename T>(std::type_identity<T>) {
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

std::optional<Shape> infer_last(ShapeSpan operands,
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

ShardingRule last_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  const std::vector<DimFactors> x = add_factors(rule, operands[0], 1);
  rule.operands = {x, {x[0], x[1]}};
  rule.result = {x[0], x[2]};
  return rule;
}

Tensor run_last(TensorSpan operands, const Attributes& attributes,
                const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor ids = contiguous(operands[1]);
  const int64_t length = x.shape[1];
  const int64_t width = x.shape[2];
  const Tensor result =
      make_tensor(element_of(context.arithmetic), {x.shape[0], width});
  const int64_t token = integer_of(attributes, "token", 0);
  const bool equal = number_of(attributes, "equal", 0) != 0;
  for_element_type(x.element, [&]<typename T>(std::type_identity<T>) {
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

OpDef token_positions_op() {
  return {
      .name = "token_positions",
      .summary =
          "positions of tokens [B, L], from padding + 1; padding has position "
          "`padding`",
      .attributes = {{"padding", Kind::Number, true,
                      "the padding token, which is not counted"}},
      .factors = "the batch",
      .infer = infer_positions,
      .rule = whole_length_rule,
      .flops = flops_per_element<0>,
      .run = run_positions,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::None},
      .gives_integers = true};
}

OpDef last_token_op() {
  return {
      .name = "last_token",
      .summary =
          "the row of x [B, L, C] at the last token of [B, L] that is not "
          "`token`",
      .min_operands = 2,
      .linearity = Linearity::Multilinear,
      .linear_in = {0},
      .attributes = {{"token", Kind::Number, true, "the token to compare with"},
                     {"equal", Kind::Number, false,
                      "1: take the last token equal to `token`; default 0"}},
      .factors = "every dimension but L",
      .infer = infer_last,
      .rule = last_rule,
      .flops = flops_per_element<0>,
      .run = run_last,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::All, .only = {1}}};
}

}  // namespace shardplan
