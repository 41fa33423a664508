// SPDX-License-Identifier: Apache-2.0
// Operations that move numbers: transposing, slicing and concatenating; and
// constraint, which moves nothing on one device.
//
// A constraint returns a value unchanged, in a requested layout
// (jax.lax.with_sharding_constraint); the partitioner reads the spec. It is not
// declared linear, although it is the identity, because partial sums must be
// reduced here.
#include <utility>

#include "base/checked.h"
#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::vector<int> order_of(const Attributes& attributes, size_t rank) {
  std::vector<int> order;
  for (const int64_t dim : integers_of(attributes, "order")) {
    order.push_back(static_cast<int>(dim_at(dim, rank)));
  }
  return order;
}

std::optional<Shape> infer_transposed(ShapeSpan operands,
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
    once = once && !taken[*at];
    taken[*at] = true;
    result.push_back(shape[*at]);
  }
  if (once) return result;
  return refuse(diags, where,
                "`order` " + shape_text({wanted.begin(), wanted.end()}) +
                    " is not a permutation of the dimensions of " +
                    shape_text(shape),
                "name every dimension of the operand once");
}

ShardingRule transpose_rule(ShapeSpan operands, const Attributes& attributes) {
  ShardingRule rule = elementwise_rule(operands, attributes);
  rule.result.clear();
  for (const int dim : order_of(attributes, operands[0].size())) {
    rule.result.push_back(nth(rule.operands[0], dim));
  }
  return rule;
}

Tensor run_transposed(TensorSpan operands, const Attributes& attributes,
                      const RunContext&) {
  return permuted(operands[0], order_of(attributes, operands[0].shape.size()));
}

std::optional<Shape> infer_sliced(ShapeSpan operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  Shape shape = operands[0];
  const auto dim = find_dim_of(attributes, shape, where, diags);
  if (!dim) return std::nullopt;
  const int64_t size = shape[*dim];
  const auto begin = find_integer(attributes, "begin", 0, where, diags);
  const auto end = find_integer(attributes, "end", size, where, diags);
  if (!begin || !end) return std::nullopt;
  if (*begin < 0 || *begin > *end || *end > size) {
    return refuse(diags, where,
                  "[" + std::to_string(*begin) + ", " + std::to_string(*end) +
                      ") is not a range of dimension " + std::to_string(*dim) +
                      " of " + shape_text(shape),
                  "give 0 <= `begin` <= `end` <= " + std::to_string(size));
  }
  shape[*dim] = *end - *begin;
  return shape;
}

// Returns the rule of operands and a result that differ only in `dim`, which
// may not be sharded.
ShardingRule rule_around(ShapeSpan operands, const Shape& result, size_t dim) {
  ShardingRule rule;
  rule.result = add_factors(rule, result, dim);
  for (const Shape& operand : operands) {
    std::vector<DimFactors> dims = rule.result;
    dims[dim] = add_factor(rule, operand[dim], FactorKind::Whole);
    rule.operands.push_back(std::move(dims));
  }
  return rule;
}

ShardingRule slice_rule(ShapeSpan operands, const Attributes& attributes) {
  Diagnostics none;
  return rule_around(operands, *infer_sliced(operands, attributes, {}, none),
                     dim_of(attributes, operands[0].size()));
}

Tensor run_sliced(TensorSpan operands, const Attributes& attributes,
                  const RunContext&) {
  const Tensor& x = operands[0];
  const size_t dim = dim_of(attributes, x.shape.size());
  return slice(x, static_cast<int>(dim), integer_of(attributes, "begin", 0),
               integer_of(attributes, "end", x.shape[dim]));
}

// On a sharded dimension, each device slices the same fraction of its own part.
std::optional<Attributes> local_slice(const Attributes& attributes,
                                      const ShardingRule& rule,
                                      ShapeSpan local) {
  Attributes own = attributes;
  const size_t dim = dim_of(attributes, local[0].size());
  const DimFactors& factors = rule.operands[0][dim];
  const int64_t whole =
      factors.empty() ? 1 : nth(rule.factors, factors[0]).size;
  const int64_t size = local[0][dim];
  if (size == whole) return own;
  if (size == 0 || whole % size != 0) return std::nullopt;
  const int64_t shares = whole / size;
  for (const char* bound : {"begin", "end"}) {
    const auto given = own.find(std::string_view(bound));
    if (given == own.end()) continue;
    auto& row = std::get<double>(given->second);
    if (static_cast<int64_t>(row) % shares != 0) return std::nullopt;
    row /= static_cast<double>(shares);
  }
  return own;
}

std::optional<Shape> infer_concatenated(ShapeSpan operands,
                                        const Attributes& attributes,
                                        Span where, Diagnostics& diags) {
  Shape result = operands[0];
  const auto dim = find_dim_of(attributes, result, where, diags);
  if (!dim) return std::nullopt;
  for (const Shape& operand : operands.subspan(1)) {
    Shape alike = operand;
    if (operand.size() == result.size()) alike[*dim] = result[*dim];
    if (alike != result) {
      return refuse(diags, where,
                    "cannot concatenate " + shapes_text(operands) +
                        " along dimension " + std::to_string(*dim),
                    "give operands with equal sizes in every other dimension");
    }
    const auto sum = checked_add(result[*dim], operand[*dim]);
    if (!sum) {
      return refuse(diags, where,
                    "dimension " + std::to_string(*dim) + " of " +
                        shapes_text(operands) + ", concatenated, is too large",
                    "make the operands smaller: sizes are counted in 63 bits");
    }
    result[*dim] = *sum;
  }
  return countable(std::move(result), where, diags);
}

ShardingRule concatenate_rule(ShapeSpan operands,
                              const Attributes& attributes) {
  Diagnostics none;
  return rule_around(operands,
                     *infer_concatenated(operands, attributes, {}, none),
                     dim_of(attributes, operands[0].size()));
}

Tensor run_concatenated(TensorSpan operands, const Attributes& attributes,
                        const RunContext& context) {
  Shape shape = operands[0].shape;
  const size_t dim = dim_of(attributes, shape.size());
  shape[dim] = 0;
  for (const Tensor& operand : operands) shape[dim] += operand.shape[dim];
  Tensor result = make_unfilled(element_of(context.arithmetic), shape);
  int64_t begin = 0;
  for (const Tensor& operand : operands) {
    const int64_t end = begin + operand.shape[dim];
    copy_into(slice(result, static_cast<int>(dim), begin, end), operand);
    begin = end;
  }
  return result;
}

OpDef movement(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .linearity = Linearity::Additive,
          .factors = "every dimension but `dim`",
          .flops = flops_per_element<0>,
          .recompute_cost = RecomputeCost::View,
          .gradient = {.operands = ReadOperands::None}};
}

std::optional<Shape> infer_constrained(ShapeSpan operands,
                                       const Attributes& attributes, Span where,
                                       Diagnostics& diags) {
  const Shape& shape = operands[0];
  const auto& spec = std::get<PartitionSpec>(attributes.find("spec")->second);
  if (spec.dims.size() <= shape.size()) return shape;
  return refuse(
      diags, where,
      spec_text(spec) + " is longer than the rank of " + shape_text(shape),
      "give at most one entry per dimension");
}

Tensor run_constrained(TensorSpan operands, const Attributes&,
                       const RunContext&) {
  return operands[0];
}

}  // namespace

OpDef transpose_op() {
  OpDef op = movement("transpose", "x with its dimensions permuted");
  op.attributes = {
      {"order", Kind::Integers, true,
       "the operand's dimension for each dimension of the result"}};
  op.factors = "every dimension";
  op.infer = infer_transposed;
  op.rule = transpose_rule;
  op.run = run_transposed;
  op.shares_storage = true;
  return op;
}

OpDef slice_op() {
  OpDef op = movement("slice", "a range of one dimension");
  op.attributes = {{"dim", Kind::Number, true, "the dimension"},
                   {"begin", Kind::Number, false, "first index; default 0"},
                   {"end", Kind::Number, false,
                    "the index after the last; default the size"}};
  op.infer = infer_sliced;
  op.rule = slice_rule;
  op.run = run_sliced;
  op.shares_storage = true;
  op.local_attributes = local_slice;
  op.is_slice = true;
  return op;
}

OpDef concatenate_op() {
  OpDef op = movement("concatenate", "operands joined along a dimension");
  op.min_operands = 2;
  op.max_operands = kManyOperands;
  op.attributes = {{"dim", Kind::Number, true, "the dimension to join along"}};
  op.infer = infer_concatenated;
  op.rule = concatenate_rule;
  op.run = run_concatenated;
  op.recompute_cost = RecomputeCost::Cheap;
  return op;
}

OpDef constraint_op() {
  return {.name = "constraint",
          .summary = "the operand, sharded as a spec says",
          .attributes = {{"spec", Kind::Spec, true, "mesh axes per dimension"}},
          .factors = "every dimension",
          .infer = infer_constrained,
          .rule = elementwise_rule,
          .flops = flops_per_element<0>,
          .run = run_constrained,
          .recompute_cost = RecomputeCost::View,
          .gradient = {.operands = ReadOperands::None},
          .shares_storage = true,
          .is_constraint = true};
}

}  // namespace shardplan
