// SPDX-License-Identifier: Apache-2.0
// The same numbers in row-major order, under another shape.
//
// Both shapes are walked from the major end. What is left of a dimension on
// either side has a greatest common divisor: that is a factor of both, the next
// one towards the minor end, and it is taken away from both. [b, h d] to
// [b, h, d] has factors b, h and d, the second dimension of the operand being
// (h, d). Where both sides have something left without a common divisor, as in
// [6, 4] to [8, 3] after a 2, the dimensions that are left are whole up to the
// place where the two shapes meet again. (Shardy's reshape rule does the same.)
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "graph/op.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

std::nullopt_t misfit(const Shape& operand, const Shape& wanted, Span where,
                      Diagnostics& diags) {
  return diags
      .error(
          Code::InvalidGraph, where,
          "cannot reshape " + shape_text(operand) + " to " + shape_text(wanted))
      .help("give shapes of the same number of elements; one size may be -1");
}

std::optional<Shape> infer_reshaped(std::span<const Shape> operands,
                                    const Attributes& attributes, Span where,
                                    Diagnostics& diags) {
  const auto wanted = integers_of(attributes, "shape");
  Shape shape(wanted.begin(), wanted.end());
  const int64_t elements = count_of(operands[0]);
  int64_t* rest = nullptr;
  int64_t known = 1;
  for (int64_t& size : shape) {
    if (size == -1 && rest == nullptr) {
      rest = &size;
      continue;
    }
    const auto product = checked_mul(known, size);
    if (size < 0 || !product) return misfit(operands[0], shape, where, diags);
    known = *product;
  }
  if (rest != nullptr) {
    // Any size would do for nothing, so none is right.
    if (known == 0 || elements % known != 0) {
      return misfit(operands[0], shape, where, diags);
    }
    *rest = elements / known;
    known = elements;
  }
  if (known != elements) return misfit(operands[0], shape, where, diags);
  return shape;
}

// One side of the walk: a shape, and what is left of its current dimension.
class Side {
 public:
  Side(const Shape& shape, std::vector<DimFactors>& dims)
      : shape_(shape), dims_(dims) {
    dims_.resize(shape.size());
    settle();
  }

  bool done() const { return dim_ == shape_.size(); }
  int64_t left() const { return left_; }
  // Gives `size` of what is left to a factor.
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

class FactorWalk {
 public:
  FactorWalk(const Shape& operand, const Shape& result)
      : from_(operand, rule_.operands.emplace_back()),
        to_(result, rule_.result) {}

  ShardingRule run() {
    while (!from_.done() && !to_.done()) {
      const int64_t common = std::gcd(from_.left(), to_.left());
      if (common == 1) {
        take_whole();
        continue;
      }
      const int factor = add(common, FactorKind::Pass);
      from_.take(factor, common);
      to_.take(factor, common);
    }
    return std::move(rule_);
  }

 private:
  int add(int64_t size, FactorKind kind) {
    rule_.factors.push_back({size, kind});
    return static_cast<int>(rule_.factors.size()) - 1;
  }

  // Up to where as many elements are taken from one side as from the other.
  void take_whole() {
    int64_t from = 1;
    int64_t to = 1;
    do {
      Side& behind = from <= to ? from_ : to_;
      int64_t& taken = from <= to ? from : to;
      const int64_t left = behind.left();
      behind.take(add(left, FactorKind::Whole), left);
      taken *= left;
    } while (from != to);
  }

  ShardingRule rule_;
  Side from_;
  Side to_;
};

ShardingRule reshape_rule(std::span<const Shape> operands,
                          const Attributes& attributes) {
  Diagnostics none;
  const Shape result = *infer_reshaped(operands, attributes, {}, none);
  if (count_of(operands[0]) != 0) return FactorWalk(operands[0], result).run();
  ShardingRule rule;
  std::vector<DimFactors>& dims = rule.operands.emplace_back();
  for (const int64_t size : operands[0]) {
    dims.push_back(add_factor(rule, size, FactorKind::Whole));
  }
  for (const int64_t size : result) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Whole));
  }
  return rule;
}

Tensor run_reshaped(std::span<const Tensor> operands,
                    const Attributes& /*attributes*/,
                    const RunContext& context) {
  Shape shape;
  for (const DimFactors& dim : context.rule->result) {
    shape.push_back(range_of(dim, context).size);
  }
  return reshaped(operands[0], shape);
}

}  // namespace

OpDef reshape_op() {
  OpDef op;
  op.name = "reshape";
  op.summary = "the same numbers, row-major, under another shape";
  op.linearity = Linearity::Additive;
  op.attributes = {{"shape", AttributeDef::Kind::Integers, true,
                    "the new shape; one size may be -1"}};
  op.factors = "sizes that both shapes share, from the major end";
  op.infer = infer_reshaped;
  op.rule = reshape_rule;
  op.flops = flops_per_element<0>;
  op.run = run_reshaped;
  return op;
}

// A value as it is, in a layout that is asked for
// (jax.lax.with_sharding_constraint): the partitioner reads the spec.
//
// Not linear, although it is the identity: partial sums are to be settled here.

namespace {

std::optional<Shape> infer_constrained(std::span<const Shape> operands,
                                       const Attributes& attributes, Span where,
                                       Diagnostics& diags) {
  const Shape& shape = operands[0];
  const auto& spec = std::get<PartitionSpec>(attributes.find("spec")->second);
  if (spec.dims.size() <= shape.size()) return shape;
  return diags
      .error(
          Code::InvalidGraph, where,
          spec_text(spec) + " is longer than the rank of " + shape_text(shape))
      .help("give one entry per dimension at most");
}

Tensor run_constrained(std::span<const Tensor> operands,
                       const Attributes& /*attributes*/,
                       const RunContext& /*context*/) {
  return operands[0];
}

}  // namespace

OpDef constraint_op() {
  OpDef op;
  op.name = "constraint";
  op.summary = "the operand, laid out as a spec says";
  op.attributes = {
      {"spec", AttributeDef::Kind::Spec, true, "mesh axes per dimension"}};
  op.factors = "every dimension";
  op.infer = infer_constrained;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<0>;
  op.run = run_constrained;
  return op;
}

}  // namespace shardplan
