// SPDX-License-Identifier: Apache-2.0
// Which numbers of a row are the largest.
//
// Largest first; of equal ones the lower index, as jax.lax.top_k, and
// torch.topk on a CPU; a NaN counts as larger than any number, as in both.
// Indices are numbers of the element type. In the field, residues are compared
// as integers.
#include <cmath>
#include <numeric>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::optional<Shape> infer_chosen(std::span<const Shape> operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  Shape shape = operands[0];
  const auto k = find_integer(attributes, "k", 1, where, diags);
  if (!k) return std::nullopt;
  if (shape.empty() || *k < 1 || *k > shape.back()) {
    return diags
        .error(Code::InvalidGraph, where,
               "cannot choose " + std::to_string(*k) +
                   " along the last dimension of " + shape_text(shape))
        .help("give `k` from 1 to the size of that dimension");
  }
  shape.back() = *k;
  return shape;
}

ShardingRule choice_rule(std::span<const Shape> operands,
                         const Attributes& attributes) {
  const Shape& shape = operands[0];
  ShardingRule rule;
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim) {
    rule.result.push_back(add_factor(rule, shape[dim], FactorKind::Pass));
  }
  rule.operands.push_back(rule.result);
  rule.operands[0].push_back(add_factor(rule, shape.back(), FactorKind::Whole));
  rule.result.push_back(
      add_factor(rule, integer_of(attributes, "k", 1), FactorKind::Whole));
  return rule;
}

int64_t choice_flops(std::span<const Shape> operands, const Shape& /*result*/,
                     const Attributes& /*attributes*/) {
  return count_of(operands[0]);
}

template <typename T>
void choose_each(const Tensor& x, const Tensor& result) {
  const int64_t n = x.shape.back();
  const int64_t k = result.shape.back();
  const int64_t rows = result.elements() / k;
  std::vector<int64_t> order(static_cast<size_t>(n));
  const T* row = x.data<T>();
  T* out = result.data<T>();
  for (int64_t i = 0; i < rows; ++i, row += n, out += k) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](int64_t a, int64_t b) {
                        const bool odd_a = std::isnan(row[a]);
                        const bool odd_b = std::isnan(row[b]);
                        if (odd_a != odd_b) return odd_a;
                        if (!odd_a && row[a] != row[b]) return row[a] > row[b];
                        return a < b;
                      });
    std::copy_n(order.begin(), k, out);
  }
}

Tensor run_choice(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  Shape shape = x.shape;
  shape.back() = integer_of(attributes, "k", 1);
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    choose_each<T>(x, result);
  });
  return result;
}

}  // namespace

OpDef top_k_op() {
  OpDef op;
  op.name = "top_k";
  op.summary = "indices [.., k] of the k largest of x [.., n], largest first";
  op.attributes = {{"k", AttributeDef::Kind::Number, true, "how many"}};
  op.factors = "every dimension but the last";
  op.infer = infer_chosen;
  op.rule = choice_rule;
  op.flops = choice_flops;
  op.run = run_choice;
  op.is_decision = true;
  return op;
}

}  // namespace shardplan
