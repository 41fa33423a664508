// SPDX-License-Identifier: Apache-2.0
// Rows of a table, by their numbers.
//
// Where the rows are sharded, a device looks up those that it has and gives
// zeros for the others: the sum is the whole (Megatron-LM's
// VocabParallelEmbedding). A number that is no row of the whole table gives NaN
// on every device, as jax.numpy.take does by default; in the field, 0.
#include <algorithm>
#include <limits>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"
#include "graph/routing.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_embedding(std::span<const Shape> operands,
                                     const Attributes& /*attributes*/,
                                     Span where, Diagnostics& diags) {
  if (operands[0].size() != 2) {
    return diags
        .error(Code::InvalidGraph, where,
               "the table " + shape_text(operands[0]) +
                   " of an embedding is no matrix")
        .help("give it the shape [rows, width]");
  }
  Shape result = operands[1];
  result.push_back(operands[0][1]);
  return countable(std::move(result), where, diags);
}

ShardingRule embedding_rule(std::span<const Shape> operands,
                            const Attributes& /*attributes*/) {
  ShardingRule rule;
  rule.operands.resize(2);
  rule.operands[0].push_back(add_factor(rule, operands[0][0], FactorKind::Sum));
  for (const int64_t size : operands[1]) {
    rule.operands[1].push_back(add_factor(rule, size, FactorKind::Pass));
  }
  rule.result = rule.operands[1];
  rule.result.push_back(add_factor(rule, operands[0][1], FactorKind::Pass));
  rule.operands[0].push_back(rule.result.back());
  return rule;
}

template <typename T>
void look_up(const Tensor& table, const Tensor& ids, const DimRange& rows,
             const Tensor& result, T outside) {
  const int64_t width = table.shape[1];
  const int64_t step = table.strides[1];
  const T* id = ids.data<T>();  // row-major, as the result
  T* out = result.data<T>();
  for (int64_t i = 0; i < ids.elements(); ++i, out += width) {
    const int64_t of_whole = index_of(id[i], rows.whole);
    if (of_whole < 0) {
      std::fill_n(out, width, outside);
      continue;
    }
    const int64_t row = of_whole - rows.begin;
    if (row < 0 || row >= rows.size) continue;
    const T* from = table.data<T>() + row * table.strides[0];
    for (int64_t j = 0; j < width; ++j) out[j] = from[j * step];
  }
}

Tensor run_embedding(std::span<const Tensor> operands,
                     const Attributes& /*attributes*/,
                     const RunContext& context) {
  const Tensor& table = operands[0];
  const Tensor ids = contiguous(operands[1]);
  const DimRange rows = range_of(context.rule->operands[0][0], context);
  Shape shape = ids.shape;
  shape.push_back(table.shape[1]);
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    look_up<T>(table, ids, rows, result,
               context.arithmetic == Arithmetic::Field
                   ? T{0}
                   : std::numeric_limits<T>::quiet_NaN());
  });
  return result;
}

}  // namespace

OpDef embedding_op() {
  OpDef op;
  op.name = "embedding";
  op.summary = "rows of a table [V, D], by ids [...]: [..., D]";
  op.min_operands = 2;
  op.max_operands = 2;
  op.factors = "every dimension; the table's rows give partial sums";
  op.infer = infer_embedding;
  op.rule = embedding_rule;
  op.flops = flops_per_element<0>;
  op.run = run_embedding;
  return op;
}

// Numbers of a row, by their indices: take_along_axis on the last dimension.
//
// Where rows are sharded, a device gives those that it has and zeros for the
// others: the sum is the whole. An index that is not in the whole row gives NaN
// on every device, as jax.numpy.take_along_axis does by default (there,
// negative ones count from the end); in the field, 0.

namespace {

std::optional<Shape> infer_taken(std::span<const Shape> operands,
                                 const Attributes& /*attributes*/, Span where,
                                 Diagnostics& diags) {
  const Shape& x = operands[0];
  Shape alike = operands[1];
  if (!x.empty() && alike.size() == x.size()) alike.back() = x.back();
  if (!x.empty() && alike == x) return operands[1];
  return diags
      .error(Code::InvalidGraph, where,
             "cannot take from " + shape_text(x) + " by indices " +
                 shape_text(operands[1]))
      .help("give [.., n] and [.., k], alike in every dimension but the last");
}

ShardingRule take_rule(std::span<const Shape> operands,
                       const Attributes& /*attributes*/) {
  ShardingRule rule;
  for (const int64_t size : operands[1]) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Pass));
  }
  rule.operands = {rule.result, rule.result};
  rule.operands[0].back() =
      add_factor(rule, operands[0].back(), FactorKind::Sum);
  return rule;
}

template <typename T>
void take_each(const Tensor& x, const Tensor& indices, const DimRange& row,
               const Tensor& result, T outside) {
  const int64_t k = indices.shape.back();
  const int64_t rows = indices.elements() == 0 ? 0 : indices.elements() / k;
  const T* from = x.data<T>();
  const T* index = indices.data<T>();
  T* out = result.data<T>();
  for (int64_t i = 0; i < rows; ++i, from += row.size) {
    for (int64_t j = 0; j < k; ++j, ++index, ++out) {
      const int64_t of_whole = index_of(*index, row.whole);
      const int64_t at = of_whole - row.begin;
      if (of_whole < 0) {
        *out = outside;
      } else if (at >= 0 && at < row.size) {
        *out = from[at];
      }
    }
  }
}

Tensor run_take(std::span<const Tensor> operands,
                const Attributes& /*attributes*/, const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor indices = contiguous(operands[1]);
  const DimRange row = range_of(context.rule->operands[0].back(), context);
  const Tensor result =
      make_tensor(element_of(context.arithmetic), indices.shape);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    take_each<T>(x, indices, row, result,
                 context.arithmetic == Arithmetic::Field
                     ? T{0}
                     : std::numeric_limits<T>::quiet_NaN());
  });
  return result;
}

}  // namespace

OpDef take_op() {
  OpDef op;
  op.name = "take";
  op.summary = "numbers of x [.., n], by indices [.., k]: [.., k]";
  op.min_operands = 2;
  op.max_operands = 2;
  op.linearity = Linearity::Multilinear;
  op.linear_in = {0};
  op.factors = "every dimension; the last of x gives partial sums";
  op.infer = infer_taken;
  op.rule = take_rule;
  op.flops = flops_per_element<0>;
  op.run = run_take;
  return op;
}

}  // namespace shardplan
