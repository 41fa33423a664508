// SPDX-License-Identifier: Apache-2.0
// Transposing, cutting and putting together.
#include <algorithm>

#include "base/checked.h"
#include "graph/op.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::vector<int> order_of(const Attributes& attributes, size_t rank) {
  std::vector<int> order;
  for (const int64_t dim : integers_of(attributes, "order")) {
    order.push_back(dim_at(dim, rank));
  }
  return order;
}

std::optional<Shape> infer_transposed(std::span<const Shape> operands,
                                      const Attributes& attributes, Span where,
                                      Diagnostics& diags) {
  const Shape& shape = operands[0];
  Shape result;
  std::vector<bool> taken(shape.size(), false);
  const auto wanted = integers_of(attributes, "order");
  bool once = wanted.size() == shape.size();
  for (const int64_t dim : wanted) {
    const auto at = find_dim(dim, shape, where, diags);
    if (!at) return std::nullopt;
    const auto index = static_cast<size_t>(*at);
    once = once && !taken[index];
    taken[index] = true;
    result.push_back(shape[index]);
  }
  if (once) return result;
  return diags
      .error(Code::InvalidGraph, where,
             "`order` " + shape_text(Shape(wanted.begin(), wanted.end())) +
                 " is no order of the dimensions of " + shape_text(shape))
      .help("name every dimension of the operand once");
}

ShardingRule transpose_rule(std::span<const Shape> operands,
                            const Attributes& attributes) {
  ShardingRule rule = elementwise_rule(operands, attributes);
  rule.result.clear();
  for (const int dim : order_of(attributes, operands[0].size())) {
    rule.result.push_back(rule.operands[0][static_cast<size_t>(dim)]);
  }
  return rule;
}

Tensor run_transposed(std::span<const Tensor> operands,
                      const Attributes& attributes,
                      const RunContext& /*context*/) {
  return permuted(operands[0], order_of(attributes, operands[0].shape.size()));
}

// The dimension that a slice or a concatenation is about.
size_t dim_of(const Attributes& attributes, size_t rank) {
  return static_cast<size_t>(dim_at(integer_of(attributes, "dim", 0), rank));
}

std::optional<size_t> find_dim_of(const Shape& shape,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const auto dim = find_integer(attributes, "dim", 0, where, diags);
  if (!dim) return std::nullopt;
  const auto found = find_dim(*dim, shape, where, diags);
  if (!found) return std::nullopt;
  return static_cast<size_t>(*found);
}

std::optional<Shape> infer_sliced(std::span<const Shape> operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  Shape shape = operands[0];
  const auto dim = find_dim_of(shape, attributes, where, diags);
  if (!dim) return std::nullopt;
  const int64_t size = shape[*dim];
  const auto begin = find_integer(attributes, "begin", 0, where, diags);
  const auto end = find_integer(attributes, "end", size, where, diags);
  if (!begin || !end) return std::nullopt;
  if (*begin < 0 || *begin > *end || *end > size) {
    return diags
        .error(Code::InvalidGraph, where,
               "[" + std::to_string(*begin) + ", " + std::to_string(*end) +
                   ") is no part of dimension " + std::to_string(*dim) +
                   " of " + shape_text(shape))
        .help("give 0 <= `begin` <= `end` <= " + std::to_string(size));
  }
  shape[*dim] = *end - *begin;
  return shape;
}

// `operands` and `result` are alike but for `dim`, which is whole in all.
ShardingRule rule_around(std::span<const Shape> operands, const Shape& result,
                         size_t dim) {
  ShardingRule rule;
  for (size_t i = 0; i < result.size(); ++i) {
    rule.result.push_back(add_factor(
        rule, result[i], i == dim ? FactorKind::Whole : FactorKind::Pass));
  }
  for (const Shape& operand : operands) {
    std::vector<DimFactors> dims = rule.result;
    dims[dim] = add_factor(rule, operand[dim], FactorKind::Whole);
    rule.operands.push_back(std::move(dims));
  }
  return rule;
}

ShardingRule slice_rule(std::span<const Shape> operands,
                        const Attributes& attributes) {
  Diagnostics none;
  return rule_around(operands, *infer_sliced(operands, attributes, {}, none),
                     dim_of(attributes, operands[0].size()));
}

Tensor run_sliced(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& /*context*/) {
  const Tensor& x = operands[0];
  const size_t dim = dim_of(attributes, x.shape.size());
  return slice(x, static_cast<int>(dim), integer_of(attributes, "begin", 0),
               integer_of(attributes, "end", x.shape[dim]));
}

std::optional<Shape> infer_concatenated(std::span<const Shape> operands,
                                        const Attributes& attributes,
                                        Span where, Diagnostics& diags) {
  Shape result = operands[0];
  const auto dim = find_dim_of(result, attributes, where, diags);
  if (!dim) return std::nullopt;
  for (const Shape& operand : operands.subspan(1)) {
    Shape alike = operand;
    if (operand.size() == result.size()) alike[*dim] = result[*dim];
    if (alike != result) {
      return diags
          .error(Code::InvalidGraph, where,
                 "cannot concatenate " + shapes_text(operands) +
                     " along dimension " + std::to_string(*dim))
          .help("give operands that are alike in every other dimension");
    }
    const auto sum = checked_add(result[*dim], operand[*dim]);
    if (!sum) {
      return diags
          .error(Code::InvalidGraph, where,
                 "dimension " + std::to_string(*dim) + " of " +
                     shapes_text(operands) + ", concatenated, is too large")
          .help("make the operands smaller: sizes are counted in 63 bits");
    }
    result[*dim] = *sum;
  }
  return countable(std::move(result), where, diags);
}

ShardingRule concatenate_rule(std::span<const Shape> operands,
                              const Attributes& attributes) {
  Diagnostics none;
  return rule_around(operands,
                     *infer_concatenated(operands, attributes, {}, none),
                     dim_of(attributes, operands[0].size()));
}

Tensor run_concatenated(std::span<const Tensor> operands,
                        const Attributes& attributes,
                        const RunContext& context) {
  Shape shape = operands[0].shape;
  const size_t dim = dim_of(attributes, shape.size());
  shape[dim] = 0;
  for (const Tensor& operand : operands) shape[dim] += operand.shape[dim];
  Tensor result = make_tensor(element_of(context.arithmetic), shape);
  int64_t begin = 0;
  for (const Tensor& operand : operands) {
    const int64_t end = begin + operand.shape[dim];
    copy_into(slice(result, static_cast<int>(dim), begin, end), operand);
    begin = end;
  }
  return result;
}

OpDef movement(std::string_view name, std::string_view summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.linearity = Linearity::Additive;
  op.factors = "every dimension but `dim`";
  op.flops = flops_per_element<0>;
  return op;
}

}  // namespace

OpDef transpose_op() {
  OpDef op = movement("transpose", "dimensions in another order");
  op.attributes = {{"order", AttributeDef::Kind::Integers, true,
                    "for every dimension of the result, the operand's"}};
  op.factors = "every dimension";
  op.infer = infer_transposed;
  op.rule = transpose_rule;
  op.run = run_transposed;
  return op;
}

OpDef slice_op() {
  OpDef op = movement("slice", "part of one dimension");
  op.attributes = {
      {"dim", AttributeDef::Kind::Number, true, "the dimension"},
      {"begin", AttributeDef::Kind::Number, false, "first index; default 0"},
      {"end", AttributeDef::Kind::Number, false,
       "the index after the last; default the size"}};
  op.infer = infer_sliced;
  op.rule = slice_rule;
  op.run = run_sliced;
  return op;
}

OpDef concatenate_op() {
  OpDef op = movement("concatenate", "operands one after the other");
  op.min_operands = 2;
  op.max_operands = kManyOperands;
  op.attributes = {{"dim", AttributeDef::Kind::Number, true, "along which"}};
  op.infer = infer_concatenated;
  op.rule = concatenate_rule;
  op.run = run_concatenated;
  return op;
}

}  // namespace shardplan
