// SPDX-License-Identifier: Apache-2.0
// Reshape: the same numbers in row-major order, in another shape.
//
// Both shapes are walked from the major end. The remainders of the current
// dimensions on both sides have a greatest common divisor. It becomes the next
// factor of both, towards the minor end, and both remainders are divided by it.
// For example, [b, h d] to [b, h, d] has factors b, h and d; the second
// dimension of the operand is (h, d). If the remainders of both sides have no
// common divisor, as in [6, 4] to [8, 3] after a 2, the dimensions that remain
// may not be sharded, up to the place where the two shapes meet again.
// (Shardy's reshape rule does the same.)
#include <numeric>

#include "base/checked.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_reshaped(ShapeSpan operands,
                                    const Attributes& attributes, Span where,
                                    Diagnostics& diags) {
  const auto wanted = integers_of(attributes, "shape");
  Shape shape(wanted.begin(), wanted.end());
  const int64_t elements = count_of(operands[0]);
  int64_t* rest = nullptr;
  std::optional<int64_t> known = 1;
  for (int64_t& size : shape) {
    if (size == -1 && rest == nullptr) {
      rest = &size;
    } else {
      known = known && size >= 0 ? checked_mul(*known, size) : std::nullopt;
    }
  }
  if (rest == nullptr && known == elements) return shape;
  // If the other sizes make no elements, every size would fit, so none is
  // right.
  if (rest != nullptr && known.value_or(0) != 0 && elements % *known == 0) {
    *rest = elements / *known;
    return shape;
  }
  return refuse(
      diags, where,
      "cannot reshape " + shape_text(operands[0]) + " to " + shape_text(shape),
      "give shapes of the same number of elements; one size may be -1");
}

// One side of the walk: a shape, and the remainder of its current dimension.
class Side {
 public:
  Side(const Shape& shape, std::vector<DimFactors>& dims)
      : shape_(shape), dims_(dims) {
    dims_.resize(shape.size());
    settle();
  }

  bool done() const { return dim_ == shape_.size(); }
  int64_t left() const { return left_; }
  // Assigns `size` of the remainder to a factor.
  void take(int factor, int64_t size) {
    dims_[dim_].push_back(factor);
    left_ /= size;
    if (left_ == 1) {
      ++dim_;
      settle();
    }
  }

 private:
  void settle() {
    while (dim_ < shape_.size() && shape_[dim_] == 1) ++dim_;
    left_ = done() ? 1 : shape_[dim_];
  }

  const Shape& shape_;
  std::vector<DimFactors>& dims_;
  size_t dim_ = 0;
  int64_t left_ = 1;
};

ShardingRule reshape_rule(ShapeSpan operands, const Attributes& attributes) {
  Diagnostics none;
  const Shape result = *infer_reshaped(operands, attributes, {}, none);
  ShardingRule rule;
  std::vector<DimFactors>& dims = rule.operands.emplace_back();
  if (count_of(operands[0]) == 0) {
    for (const int64_t size : operands[0]) {
      dims.push_back(add_factor(rule, size, FactorKind::Whole));
    }
    for (const int64_t size : result) {
      rule.result.push_back(add_factor(rule, size, FactorKind::Whole));
    }
    return rule;
  }
  Side from(operands[0], dims);
  Side to(result, rule.result);
  while (!from.done() && !to.done()) {
    const int64_t common = std::gcd(from.left(), to.left());
    if (common > 1) {
      const int factor = add_factor(rule, common, FactorKind::Pass).front();
      from.take(factor, common);
      to.take(factor, common);
      continue;
    }
    // Adds whole factors until both sides have covered the same number of
    // elements.
    int64_t from_taken = 1;
    int64_t to_taken = 1;
    do {
      const bool from_is_shorter = from_taken <= to_taken;
      Side& shorter = from_is_shorter ? from : to;
      const int64_t left = shorter.left();
      shorter.take(add_factor(rule, left, FactorKind::Whole).front(), left);
      (from_is_shorter ? from_taken : to_taken) *= left;
    } while (from_taken != to_taken);
  }
  return rule;
}

Tensor run_reshaped(TensorSpan operands, const Attributes&,
                    const RunContext& context) {
  return reshaped(operands[0], result_shape(context));
}

}  // namespace

OpDef reshape_op() {
  return {.name = "reshape",
          .summary = "the same values in row-major order, with a new shape",
          .linearity = Linearity::Additive,
          .attributes = {{"shape", Kind::Integers, true,
                          "the new shape; one size may be -1"}},
          .factors = "leading sizes that both shapes share",
          .infer = infer_reshaped,
          .rule = reshape_rule,
          .flops = flops_per_element<0>,
          .run = run_reshaped,
          .recompute_cost = RecomputeCost::View,
          .gradient = {.operands = ReadOperands::None},
          .shares_storage = true};
}

}  // namespace shardplan
