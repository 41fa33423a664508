// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

template <typename T>
const T* find(const Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  SHARDPLAN_CHECK(value != nullptr);
  return value;
}

}  // namespace

double number_of(const Attributes& attributes, std::string_view name,
                 double otherwise) {
  const auto* value = find<double>(attributes, name);
  return value != nullptr ? *value : otherwise;
}

std::string_view text_of(const Attributes& attributes, std::string_view name,
                         std::string_view otherwise) {
  const auto* value = find<std::string>(attributes, name);
  return value != nullptr ? std::string_view(*value) : otherwise;
}

std::span<const int64_t> integers_of(const Attributes& attributes,
                                     std::string_view name) {
  const auto* value = find<std::vector<int64_t>>(attributes, name);
  return value != nullptr ? std::span<const int64_t>(*value)
                          : std::span<const int64_t>();
}

std::span<const double> numbers_of(const Attributes& attributes,
                                   std::string_view name) {
  const auto* value = find<std::vector<double>>(attributes, name);
  return value != nullptr ? std::span<const double>(*value)
                          : std::span<const double>();
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

const OpDef* find_op(std::string_view name) {
  const auto all = ops();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const OpDef& op) { return op.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool is_linear_in(const OpDef& op, int operand) {
  if (op.linearity != Linearity::Multilinear) return false;
  return op.linear_in.empty() ||
         std::find(op.linear_in.begin(), op.linear_in.end(), operand) !=
             op.linear_in.end();
}

std::string shapes_text(std::span<const Shape> shapes) {
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i > 0) text += i + 1 < shapes.size() ? ", " : " and ";
    text += shape_text(shapes[i]);
  }
  return text;
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

std::optional<int> find_dim(int64_t dim, const Shape& shape, Span where,
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

int dim_at(int64_t dim, size_t rank) {
  return static_cast<int>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

std::optional<int64_t> find_integer(const Attributes& attributes,
                                    std::string_view name, int64_t otherwise,
                                    Span where, Diagnostics& diags) {
  if (attributes.find(name) == attributes.end()) return otherwise;
  const double number = number_of(attributes, name, 0);
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::abs(number) <= kExact && std::trunc(number) == number) {
    return static_cast<int64_t>(number);
  }
  return diags
      .error(Code::InvalidGraph, where,
             "`" + std::string(name) + "` is not an integer")
      .help("write `" + std::string(name) + "` as a whole number");
}

int64_t integer_of(const Attributes& attributes, std::string_view name,
                   int64_t otherwise) {
  if (attributes.find(name) == attributes.end()) return otherwise;
  return static_cast<int64_t>(number_of(attributes, name, 0));
}

std::optional<Shape> infer_same(std::span<const Shape> operands,
                                const Attributes& /*attributes*/,
                                Span /*where*/, Diagnostics& /*diags*/) {
  return operands[0];
}

std::optional<Shape> infer_broadcast(std::span<const Shape> operands,
                                     const Attributes& /*attributes*/,
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
      return diags
          .error(Code::InvalidGraph, where,
                 "shapes " + shapes_text(operands) +
                     " do not broadcast: " + std::to_string(size) +
                     " against " + std::to_string(shape[i]))
          .help(
              "align the shapes at the last dimension: sizes must be equal, or "
              "one of them 1");
    }
  }
  return countable(std::move(result), where, diags);
}

ShardingRule elementwise_rule(std::span<const Shape> operands,
                              const Attributes& attributes) {
  Diagnostics none;
  const Shape result = *infer_broadcast(operands, attributes, {}, none);
  ShardingRule rule;
  for (const int64_t size : result) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Pass));
  }
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

DimFactors add_factor(ShardingRule& rule, int64_t size, FactorKind kind) {
  if (size == 1) return {};
  rule.factors.push_back({size, kind});
  return {static_cast<int>(rule.factors.size()) - 1};
}

DimRange range_of(const DimFactors& dim, const RunContext& context) {
  DimRange range;
  for (const int factor : dim) {
    const int64_t whole =
        context.rule->factors[static_cast<size_t>(factor)].size;
    const std::vector<int64_t>& sizes = context.range.sizes;
    range.whole *= whole;
    range.begin = range.begin * whole + context.range.offset(factor);
    range.size *= sizes.empty() ? whole : sizes[static_cast<size_t>(factor)];
  }
  return range;
}

int64_t count_of(const Shape& shape) {
  return element_count(shape).value_or(std::numeric_limits<int64_t>::max());
}

int64_t saturating_product(int64_t a, int64_t b) {
  return checked_mul(a, b).value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace shardplan
