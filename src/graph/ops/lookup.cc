// SPDX-License-Identifier: Apache-2.0
// Lookups by indices: embedding gives rows of a table, and take numbers of a
// row (take_along_axis on the last dimension).
//
// If the rows of the table, or the numbers of a row, are sharded, a device
// gives those that it has and zeros for the others, so that the sum is the
// whole (Megatron-LM's VocabParallelEmbedding). An index outside the whole
// gives NaN on every device, as jax.numpy.take and take_along_axis do by
// default (the latter counts negative indices from the end); in the field, 0.
#include <algorithm>

#include "graph/composites.h"
#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_embedding(ShapeSpan operands, const Attributes&,
                                     Span where, Diagnostics& diags) {
  if (operands[0].size() != 2) {
    return refuse(
        diags, where,
        "embedding table " + shape_text(operands[0]) + " is not a matrix",
        "give it the shape [rows, width]");
  }
  Shape result = operands[1];
  result.push_back(operands[0][1]);
  return countable(std::move(result), where, diags);
}

ShardingRule embedding_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  const DimFactors rows = add_factor(rule, operands[0][0], FactorKind::Sum);
  const std::vector<DimFactors> ids = add_factors(rule, operands[1]);
  const DimFactors width = add_factor(rule, operands[0][1], FactorKind::Pass);
  rule.operands = {{rows, width}, ids};
  rule.result = ids;
  rule.result.push_back(width);
  return rule;
}

Tensor run_embedding(TensorSpan operands, const Attributes&,
                     const RunContext& context) {
  const Tensor& table = operands[0];
  const Tensor ids = contiguous(operands[1]);
  const DimRange rows = range_of(context.rule->operands[0][0], context);
  const int64_t width = table.shape[1];
  const int64_t step = table.strides[1];
  Shape shape = ids.shape;
  shape.push_back(width);
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    using T = typename Ring::Number;
    const T* id = ids.data<T>();  // row-major, like the result
    T* out = result.data<T>();
    for (int64_t i = 0, end = ids.elements(); i < end; ++i, out += width) {
      const int64_t of_whole = index_of(id[i], rows.whole);
      if (of_whole < 0) {
        std::fill_n(out, width, Ring::kMissing);
        continue;
      }
      const int64_t row = of_whole - rows.begin;
      if (row < 0 || row >= rows.size) continue;
      const T* from = table.data<T>() + row * table.strides[0];
      for (int64_t j = 0; j < width; ++j) out[j] = from[j * step];
    }
  });
  return result;
}

std::optional<Shape> infer_taken(ShapeSpan operands, const Attributes&,
                                 Span where, Diagnostics& diags) {
  if (differ_in_last(operands[0], operands[1])) return operands[1];
  return refuse(
      diags, where,
      "cannot take from " + shape_text(operands[0]) + " by indices " +
          shape_text(operands[1]),
      "give [.., n] and [.., k], equal in every dimension but the last");
}

ShardingRule take_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  rule.result = add_factors(rule, operands[1]);
  rule.operands = {rule.result, rule.result};
  rule.operands[0].back() =
      add_factor(rule, operands[0].back(), FactorKind::Sum);
  return rule;
}

Tensor run_take(TensorSpan operands, const Attributes&,
                const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor indices = contiguous(operands[1]);
  const DimRange row = range_of(context.rule->operands[0].back(), context);
  const Tensor result =
      make_tensor(element_of(context.arithmetic), indices.shape);
  const int64_t k = indices.shape.back();
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    using T = typename Ring::Number;
    const T* index = indices.data<T>();
    T* out = result.data<T>();
    for (int64_t i = 0, end = indices.elements(); i < end; ++i) {
      const int64_t of_whole = index_of(index[i], row.whole);
      const int64_t at = of_whole - row.begin;
      if (of_whole < 0) {
        out[i] = Ring::kMissing;
      } else if (at >= 0 && at < row.size) {
        out[i] = x.data<T>()[i / k * row.size + at];
      }
    }
  });
  return result;
}

}  // namespace

OpDef embedding_op() {
  return {.name = "embedding",
          .summary = "rows of a table [V, D] looked up by ids [...]: [..., D]",
          .min_operands = 2,
          .factors = "every dimension; the table's rows give partial sums",
          .infer = infer_embedding,
          .rule = embedding_rule,
          .flops = flops_per_element<0>,
          .run = run_embedding,
          .recompute_cost = RecomputeCost::Expensive,
          .gradient = {.operands = ReadOperands::All, .only = {1}},
          .is_lookup = true,
          .indices = [](ShapeSpan operands, const Shape&) {
            return operands[0][0];
          }};
}

OpDef take_op() {
  return {.name = "take",
          .summary = "values of x [.., n] at indices [.., k]: [.., k]",
          .min_operands = 2,
          .linearity = Linearity::Multilinear,
          .linear_in = {0},
          .factors = "every dimension; the last of x gives partial sums",
          .infer = infer_taken,
          .rule = take_rule,
          .flops = flops_per_element<0>,
          .run = run_take,
          .recompute_cost = RecomputeCost::Cheap,
          .gradient = {.operands = ReadOperands::All, .only = {1}},
          .indices = [](ShapeSpan operands, const Shape&) {
            return operands[0].back();
          }};
}

}  // namespace shardplan
