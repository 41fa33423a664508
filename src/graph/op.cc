// SPDX-License-Identifier: Apache-2.0
// Lists the operations, and has the checks and rules that they share.
#include "graph/op.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

template <typename T, typename View>
View attribute(const Attributes& attributes, std::string_view name,
               View otherwise) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  SHARDPLAN_CHECK(value != nullptr);
  return *value;
}

}  // namespace

double number_of(const Attributes& attributes, std::string_view name,
                 double otherwise) {
  return attribute<double>(attributes, name, otherwise);
}

std::string_view text_of(const Attributes& attributes, std::string_view name,
                         std::string_view otherwise) {
  return attribute<std::string>(attributes, name, otherwise);
}

std::span<const int64_t> integers_of(const Attributes& attributes,
                                     std::string_view name) {
  return attribute<std::vector<int64_t>>(attributes, name,
                                         std::span<const int64_t>());
}

std::span<const double> numbers_of(const Attributes& attributes,
                                   std::string_view name) {
  return attribute<std::vector<double>>(attributes, name,
                                        std::span<const double>());
}

std::span<const OpDef> ops() {
  static const std::vector<OpDef> kOps = {
      einsum_op(),
      add_op(),
      subtract_op(),
      multiply_op(),
      divide_op(),
      maximum_op(),
      scale_op(),
      shift_op(),
      negate_op(),
      square_op(),
      exp_op(),
      rsqrt_op(),
      relu_op(),
      gelu_op(),
      silu_op(),
      tanh_op(),
      sigmoid_op(),
      softplus_op(),
      clamp_op(),
      xielu_op(),
      sum_op(),
      mean_op(),
      max_op(),
      embedding_op(),
      causal_mask_op(),
      rope_op(),
      position_scale_op(),
      relative_bias_op(),
      alibi_op(),
      token_positions_op(),
      last_token_op(),
      causal_convolution_op(),
      linear_recurrence_op(),
      delta_recurrence_op(),
      decaying_maximum_op(),
      top_k_op(),
      choice_mask_op(),
      mixer_shares_op(),
      take_op(),
      dispatch_op(),
      combine_op(),
      reshape_op(),
      transpose_op(),
      slice_op(),
      concatenate_op(),
      expand_op(),
      constraint_op(),
  };
  return kOps;
}

const OpDef* find_op(std::string_view name) { return find_named(ops(), name); }

bool is_linear_in(const OpDef& op, int operand) {
  return op.linearity == Linearity::Multilinear &&
         (op.linear_in.empty() || contains(op.linear_in, operand));
}

std::string shapes_text(ShapeSpan shapes) {
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) texts.push_back(shape_text(shape));
  return joined(texts, ", ", " and ");
}

std::optional<Shape> refuse(Diagnostics& diags, Span where, std::string message,
                            std::string help) {
  return diags.error(Code::InvalidGraph, where, std::move(message))
      .help(std::move(help));
}

std::optional<Shape> countable(Shape shape, Span where, Diagnostics& diags) {
  if (element_count(shape)) return shape;
  return refuse(diags, where,
                "the result " + shape_text(shape) + " has too many elements",
                "make the operands smaller: elements are counted in 63 bits");
}

std::optional<size_t> find_dim(int64_t dim, const Shape& shape, Span where,
                               Diagnostics& diags) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (dim >= -rank && dim < rank) return dim_at(dim, shape.size());
  auto problem = diags.error(
      Code::InvalidGraph, where,
      shape_text(shape) + " has no dimension " + std::to_string(dim));
  if (rank == 0) return problem.help("give an operand that is not a scalar");
  return problem.help("dimensions are 0 to " + std::to_string(rank - 1) +
                      ", or from the end -1 to -" + std::to_string(rank));
}

size_t dim_at(int64_t dim, size_t rank) {
  return to_size(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

std::optional<size_t> find_dim_of(const Attributes& attributes,
                                  const Shape& shape, Span where,
                                  Diagnostics& diags) {
  const auto dim = find_integer(attributes, "dim", 1, where, diags);
  return dim ? find_dim(*dim, shape, where, diags) : std::nullopt;
}

size_t dim_of(const Attributes& attributes, size_t rank) {
  return dim_at(integer_of(attributes, "dim", 1), rank);
}

std::optional<int64_t> find_integer(const Attributes& attributes,
                                    std::string_view name, int64_t otherwise,
                                    Span where, Diagnostics& diags) {
  if (!attributes.contains(name)) return otherwise;
  const double number = number_of(attributes, name, 0);
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::abs(number) <= kExact && std::trunc(number) == number) {
    return static_cast<int64_t>(number);
  }
  const std::string quoted = in_backticks(name);
  return diags.error(Code::InvalidGraph, where, quoted + " is not an integer")
      .help("write " + quoted + " as a whole number");
}

int64_t integer_of(const Attributes& attributes, std::string_view name,
                   int64_t otherwise) {
  return attributes.contains(name)
             ? static_cast<int64_t>(number_of(attributes, name, 0))
             : otherwise;
}

std::optional<Shape> infer_same(ShapeSpan operands, const Attributes&, Span,
                                Diagnostics&) {
  return operands[0];
}

std::optional<Shape> infer_broadcast(ShapeSpan operands, const Attributes&,
                                     Span where, Diagnostics& diags) {
  size_t rank = 0;
  for (const Shape& shape : operands) rank = std::max(rank, shape.size());
  Shape result(rank, 1);
  for (const Shape& shape : operands) {
    const size_t missing = rank - shape.size();
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t& size = result[missing + i];
      if (size == 1) size = shape[i];
      if (shape[i] == 1 || shape[i] == size) continue;
      return refuse(
          diags, where,
          "shapes " + shapes_text(operands) + " do not broadcast: " +
              std::to_string(size) + " against " + std::to_string(shape[i]),
          "align the shapes at the last dimension: sizes must be equal, or one "
          "of them 1");
    }
  }
  return countable(std::move(result), where, diags);
}

ShardingRule elementwise_rule(ShapeSpan operands,
                              const Attributes& attributes) {
  Diagnostics none;
  const Shape result = *infer_broadcast(operands, attributes, {}, none);
  ShardingRule rule;
  rule.result = add_factors(rule, result);
  for (const Shape& shape : operands) {
    const size_t missing = result.size() - shape.size();
    std::vector<DimFactors>& dims = rule.operands.emplace_back();
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool repeats = shape[i] == 1;
      dims.push_back(repeats ? DimFactors{} : rule.result[missing + i]);
    }
  }
  return rule;
}

ShardingRule whole_length_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  rule.result = add_factors(rule, operands[0], 1);
  rule.operands.assign(operands.size(), rule.result);
  return rule;
}

DimFactors add_factor(ShardingRule& rule, int64_t size, FactorKind kind) {
  if (size == 1) return {};
  rule.factors.push_back({size, kind});
  return {static_cast<int>(rule.factors.size()) - 1};
}

std::vector<DimFactors> add_factors(ShardingRule& rule,
                                    std::span<const int64_t> shape,
                                    std::optional<size_t> whole) {
  std::vector<DimFactors> dims;
  for (const int64_t size : shape) {
    dims.push_back(add_factor(
        rule, size,
        whole == dims.size() ? FactorKind::Whole : FactorKind::Pass));
  }
  return dims;
}

DimRange range_of(const DimFactors& dim, const RunContext& context) {
  DimRange range;
  for (const int factor : dim) {
    const int64_t whole = nth(context.rule->factors, factor).size;
    const auto& [offsets, sizes] = context.range;
    range.whole *= whole;
    range.begin =
        range.begin * whole + (offsets.empty() ? 0 : nth(offsets, factor));
    range.size *= sizes.empty() ? whole : nth(sizes, factor);
  }
  return range;
}

Shape result_shape(const RunContext& context) {
  Shape shape;
  for (const DimFactors& dim : context.rule->result) {
    shape.push_back(range_of(dim, context).size);
  }
  return shape;
}

int64_t count_of(const Shape& shape) {
  return element_count(shape).value_or(std::numeric_limits<int64_t>::max());
}

bool differ_in_last(const Shape& a, const Shape& b) {
  return !a.empty() && a.size() == b.size() &&
         std::equal(a.begin(), a.end() - 1, b.begin());
}

int64_t flops_per_element_read(ShapeSpan operands, const Shape&,
                               const Attributes&) {
  return count_of(operands[0]);
}

int64_t saturating_product(int64_t a, int64_t b) {
  return checked_mul(a, b).value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace shardplan
