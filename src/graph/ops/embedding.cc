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
#include "graph/indices.h"
#include "graph/ops/ops.h"

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

}  // namespace shardplan
