// SPDX-License-Identifier: Apache-2.0
// Operations that choose among the numbers of a row, for mixtures of experts
// (graph/ops/experts.cc).
//
// top_k gives the indices of the largest numbers of a row. The largest number
// comes first; of equal ones, the lower index, as in jax.lax.top_k and in
// torch.topk on a CPU. A NaN counts as larger than any number, as in both.
// Indices are numbers of the element type. In the field, residues are compared
// as integers.
//
// choice_mask masks the numbers of groups that were not chosen, for models that
// choose experts from a few groups (DeepSeek-V2, 2024, section 2.1.2).
//
// mixer_shares gives the shares of experts that are chosen one after another,
// as Phi 3.5 MoE computes them in inference (Liu et al., "GRIN", 2024;
// SparseMixer). Each share comes from a softmax over the scores that were not
// chosen before it and are within 2 `jitter` of it, relative to the larger of
// the two scores.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "graph/composites.h"
#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_chosen(ShapeSpan operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  Shape shape = operands[0];
  const auto k = find_integer(attributes, "k", 1, where, diags);
  if (!k) return std::nullopt;
  if (shape.empty() || *k < 1 || *k > shape.back()) {
    return refuse(diags, where,
                  "cannot choose " + std::to_string(*k) +
                      " along the last dimension of " + shape_text(shape),
                  "give `k` from 1 to the size of that dimension");
  }
  shape.back() = *k;
  return shape;
}

// The rule of one operand [.., n] and a result [.., k].
ShardingRule rule_of_rows(const Shape& shape, int64_t k) {
  ShardingRule rule;
  rule.operands = {add_factors(rule, shape, shape.size() - 1)};
  rule.result = rule.operands[0];
  rule.result.back() = add_factor(rule, k, FactorKind::Whole);
  return rule;
}

ShardingRule choice_rule(ShapeSpan operands, const Attributes& attributes) {
  return rule_of_rows(operands[0], integer_of(attributes, "k", 1));
}

Tensor run_choice(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  Shape shape = x.shape;
  const int64_t n = shape.back();
  const int64_t k = integer_of(attributes, "k", 1);
  shape.back() = k;
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  std::vector<int64_t> order(to_size(n));
  for_element_type(result.element, [&]<typename T>(std::type_identity<T>) {
    const T* row = x.data<T>();
    T* out = result.data<T>();
    T* const end = out + result.elements();
    for (; out != end; row += n, out += k) {
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(),
                        [&](int64_t a, int64_t b) {
                          const bool odd_a = std::isnan(row[a]);
                          const bool odd_b = std::isnan(row[b]);
                          if (odd_a != odd_b) return odd_a;
                          if (!odd_a && row[a] != row[b]) {
                            return row[a] > row[b];
                          }
                          return a < b;
                        });
      std::copy_n(order.begin(), k, out);
    }
  });
  return result;
}

std::optional<Shape> infer_of_chosen(ShapeSpan operands, const Attributes&,
                                     Span where, Diagnostics& diags) {
  const Shape& x = operands[0];
  const Shape& choices = operands[1];
  const bool fits = !choices.empty() && x.size() == choices.size() + 1 &&
                    std::equal(choices.begin(), choices.end() - 1, x.begin());
  if (fits) return x;
  return refuse(
      diags, where,
      "cannot mask " + shape_text(x) + " by choices " + shape_text(choices),
      "give values [.., groups, n] and choices of groups [.., k]");
}

ShardingRule of_chosen_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  rule.result = add_factors(rule, operands[0]);
  std::vector<DimFactors> choices(rule.result.begin(), rule.result.end() - 2);
  choices.push_back(add_factor(rule, operands[1].back(), FactorKind::Whole));
  rule.operands = {rule.result, std::move(choices)};
  return rule;
}

Tensor run_choice_mask(TensorSpan operands, const Attributes&,
                       const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor choices = contiguous(operands[1]);
  const Tensor result = make_tensor(element_of(context.arithmetic), x.shape);
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  // The range of x's groups among all.
  const DimRange groups = range_of(dims[dims.size() - 2], context);
  const int64_t k = choices.shape.back();
  const int64_t n = x.shape.back();
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    using T = typename Ring::Number;
    std::fill_n(result.data<T>(), result.elements(), Ring::kHidden);
    const T* choice = choices.data<T>();
    for (int64_t i = 0, end = choices.elements(); i < end; ++i) {
      const int64_t group = index_of(choice[i], groups.whole) - groups.begin;
      if (group < 0 || group >= groups.size) continue;
      const int64_t at = (i / k * groups.size + group) * n;
      std::copy_n(x.data<T>() + at, n, result.data<T>() + at);
    }
  });
  return result;
}

std::optional<Shape> infer_shares(ShapeSpan operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const Shape& scores = operands[0];
  const Shape& choices = operands[1];
  const double jitter = number_of(attributes, "jitter", 0);
  if (differ_in_last(scores, choices) && choices.back() <= scores.back() &&
      jitter >= 0 && std::isfinite(jitter)) {
    return choices;
  }
  return refuse(
      diags, where, "cannot compute shares of " + shapes_text(operands),
      "give scores [.., n], choices [.., k] of these, and `jitter` 0 or more");
}

ShardingRule shares_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule = rule_of_rows(operands[0], operands[1].back());
  rule.operands.push_back(rule.result);
  return rule;
}

int64_t shares_flops(ShapeSpan operands, const Shape& result,
                     const Attributes&) {
  return saturating_product(saturating_product(4, operands[0].back()),
                            count_of(result));
}

// Returns the share of `chosen` among the scores of one token that are left.
template <typename T>
T share_of(RealRing<T>, const T* scores, const std::vector<bool>& left,
           size_t chosen, double jitter) {
  const T best = scores[chosen];
  T sum{0};
  for (size_t i = 0; i < left.size(); ++i) {
    if (!left[i]) continue;
    const T size = std::max(std::abs(scores[i]), best);
    const bool is_far = (best - scores[i]) / size > static_cast<T>(2 * jitter);
    if (!is_far) sum += std::exp(scores[i] - best);
  }
  return T{1} / sum;
}
double share_of(FieldRing, const double* scores, const std::vector<bool>& left,
                size_t chosen, double /*jitter*/) {
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i]) sum = field::add(sum, field_cubic(scores[i], {5, 31, 7, 11}));
  }
  return field::multiply(sum, field_cubic(scores[chosen], {3, 17, 43, 29}));
}

Tensor run_shares(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
  const Tensor scores = contiguous(operands[0]);
  const Tensor choices = contiguous(operands[1]);
  const Tensor result =
      make_tensor(element_of(context.arithmetic), choices.shape);
  const double jitter = number_of(attributes, "jitter", 0);
  const int64_t n = scores.shape.back();
  const int64_t k = choices.shape.back();
  std::vector<bool> left;
  for_ring(context.arithmetic, [&]<typename Ring>(Ring ring) {
    using T = typename Ring::Number;
    for (int64_t i = 0, end = choices.elements(); i < end; ++i) {
      if (i % k == 0) left.assign(to_size(n), true);
      const int64_t index = index_of(choices.data<T>()[i], n);
      if (index < 0) continue;  // no expert, no share
      const auto chosen = static_cast<size_t>(index);
      const T* row = scores.data<T>() + i / k * n;
      result.data<T>()[i] = share_of(ring, row, left, chosen, jitter);
      left[chosen] = false;
    }
  });
  return result;
}

}  // namespace

OpDef top_k_op() {
  return {
      .name = "top_k",
      .summary = "indices [.., k] of the k largest of x [.., n], largest first",
      .attributes = {{"k", Kind::Number, true, "number of indices"}},
      .factors = "every dimension but the last",
      .infer = infer_chosen,
      .rule = choice_rule,
      .flops = flops_per_element_read,
      .run = run_choice,
      .recompute_cost = RecomputeCost::Expensive,
      .gradient = {.operands = ReadOperands::None},
      .is_decision = true,
      .chooses_indices = true};
}

OpDef choice_mask_op() {
  return {.name = "choice_mask",
          .summary =
              "x [.., groups, n], with -inf for groups not among "
              "choices [.., k]",
          .min_operands = 2,
          .factors = "every dimension of x",
          .infer = infer_of_chosen,
          .rule = of_chosen_rule,
          .flops = flops_per_element<1>,
          .run = run_choice_mask,
          .recompute_cost = RecomputeCost::Cheap,
          .gradient = {.operands = ReadOperands::All, .only = {1}},
          .is_mask = true};
}

OpDef mixer_shares_op() {
  return {
      .name = "mixer_shares",
      .summary =
          "weights of choices [.., k], each a softmax over nearby scores "
          "[.., n] not yet chosen",
      .min_operands = 2,
      .attributes = {{"jitter", Kind::Number, true,
                      "half the largest relative distance of nearby scores"}},
      .factors = "every dimension but the last",
      .infer = infer_shares,
      .rule = shares_rule,
      .flops = shares_flops,
      .run = run_shares,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::All}};
}

}  // namespace shardplan
