// SPDX-License-Identifier: Apache-2.0
// Dispatch brings tokens to the experts that they chose, and combine brings the
// experts' answers back.
//
// The layout is GShard's (Lepikhin et al., 2020): every expert has `capacity`
// slots per sequence (graph/composites.h defines which choice fills which), so
// shapes do not depend on choices, and the exchange between devices with tokens
// and devices with experts is an all-to-all of [experts, .., capacity, m]. By
// default there are as many slots as tokens, so that no token is dropped whose
// choices differ.
//
// A sequence may consist of equal groups of tokens with slots of their own, so
// that devices that each have some of the groups send them independently.
//
// A device dispatches only to its own experts, and combines only the answers of
// its own experts; the sum over devices is the whole. Without weights, every
// choice counts once.
#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "graph/composites.h"
#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

// Returns whether groups of tokens divide a sequence and its slots; else
// reports SP015.
bool are_grouped(const Attributes& attributes, int64_t length, int64_t places,
                 Span where, Diagnostics& diags) {
  const auto groups = find_integer(attributes, "groups", 1, where, diags);
  if (!groups) return false;
  if (*groups >= 1 && length % *groups == 0 && places % *groups == 0) {
    return true;
  }
  refuse(diags, where,
         std::to_string(*groups) + " groups do not divide " +
             std::to_string(length) + " tokens and a capacity of " +
             std::to_string(places),
         "give `groups` that divide the length and the capacity");
  return false;
}

std::optional<Shape> infer_dispatched(ShapeSpan operands,
                                      const Attributes& attributes, Span where,
                                      Diagnostics& diags) {
  const Shape& x = operands[0];
  if (x.size() < 2 || !differ_in_last(x, operands[1])) {
    return refuse(diags, where,
                  "cannot dispatch " + shape_text(x) + " by choices " +
                      shape_text(operands[1]),
                  "give tokens [.., length, m] and choices [.., length, k]");
  }
  const int64_t length = x[x.size() - 2];
  const auto experts = find_integer(attributes, "experts", 1, where, diags);
  const auto capacity =
      find_integer(attributes, "capacity", length, where, diags);
  if (!experts || !capacity ||
      !are_grouped(attributes, length, *capacity, where, diags)) {
    return std::nullopt;
  }
  if (*experts < 1 || *capacity < 0) {
    return refuse(diags, where,
                  std::to_string(*experts) + " experts of capacity " +
                      std::to_string(*capacity),
                  "give at least one expert, and a capacity of 0 or more");
  }
  Shape result = x;
  result[x.size() - 2] = *capacity;
  result.insert(result.begin(), *experts);
  return countable(std::move(result), where, diags);
}

// The rule of `combine` with weights. Its operands are [experts, batch..,
// capacity, m] and, for choices and weights, [batch.., length, k]; its result
// is [batch.., length, m].
ShardingRule routing_rule(const Shape& answers, const Shape& choices,
                          const Attributes& attributes, FactorKind experts) {
  const int64_t groups = integer_of(attributes, "groups", 1);
  ShardingRule rule;
  std::vector<DimFactors> of_experts = {add_factor(rule, answers[0], experts)};
  const size_t batches = choices.size() - 2;
  std::vector<DimFactors> of_tokens =
      add_factors(rule, std::span(choices).first(batches));
  of_experts.insert(of_experts.end(), of_tokens.begin(), of_tokens.end());
  const DimFactors group = add_factor(rule, groups, FactorKind::Pass);
  const auto in_groups = [&](int64_t size) {
    DimFactors factors = group;
    const DimFactors rest = add_factor(rule, size / groups, FactorKind::Whole);
    factors.insert(factors.end(), rest.begin(), rest.end());
    return factors;
  };
  of_tokens.push_back(in_groups(choices[batches]));
  std::vector<DimFactors> of_choices = of_tokens;
  of_choices.push_back(add_factor(rule, choices.back(), FactorKind::Whole));
  of_experts.push_back(in_groups(answers[batches + 1]));
  of_experts.push_back(add_factor(rule, answers.back(), FactorKind::Pass));
  of_tokens.push_back(of_experts.back());
  rule.operands = {std::move(of_experts), of_choices, of_choices};
  rule.result = std::move(of_tokens);
  return rule;
}

ShardingRule dispatch_rule(ShapeSpan operands, const Attributes& attributes) {
  Diagnostics none;
  ShardingRule rule =
      routing_rule(*infer_dispatched(operands, attributes, {}, none),
                   operands[1], attributes, FactorKind::Pass);
  rule.operands.pop_back();
  std::swap(rule.operands[0], rule.result);
  return rule;
}

ShardingRule combine_rule(ShapeSpan operands, const Attributes& attributes) {
  ShardingRule rule =
      routing_rule(operands[0], operands[1], attributes, FactorKind::Sum);
  rule.operands.resize(operands.size());
  return rule;
}

// Returns the number of groups of tokens on this device. `dims` are those of
// [experts, batch.., places, m].
int64_t groups_here(const std::vector<DimFactors>& dims,
                    const RunContext& context) {
  const DimFactors& places = dims[dims.size() - 2];
  const bool grouped =
      !places.empty() &&
      nth(context.rule->factors, places.front()).kind == FactorKind::Pass;
  return grouped ? range_of({places.front()}, context).size : 1;
}

// Calls visit(choice, token, offset of its row) for every choice that has a row
// on this device. `choice` and `token` are indices among all. `shape` is that
// of [experts, sequences.., capacity, m] for the device's range of experts.
template <typename Visit>
void for_each_place(const Tensor& choices, const Shape& shape,
                    const DimRange& experts, const Visit& visit) {
  const int64_t width = shape.back();
  const int64_t capacity = shape[shape.size() - 2];
  const int64_t k = choices.shape.back();
  const int64_t length = choices.shape[choices.shape.size() - 2];
  const std::vector<ExpertPlace> places =
      places_of(choices, experts.whole, capacity);
  const int64_t count = std::ssize(places);
  for (int64_t choice = 0; choice < count; ++choice) {
    const auto [number, slot] = places[static_cast<size_t>(choice)];
    const int64_t expert = number - experts.begin;
    if (slot < 0 || expert < 0 || expert >= experts.size) continue;
    const int64_t sequences = count / (k * length);
    const int64_t sequence = choice / (k * length);
    visit(choice, choice / k,
          ((expert * sequences + sequence) * capacity + slot) * width);
  }
}

Tensor run_dispatch(TensorSpan operands, const Attributes&,
                    const RunContext& context) {
  const std::vector<DimFactors>& dims = context.rule->result;
  const int64_t groups = groups_here(dims, context);
  const Tensor x = in_groups_of_tokens(operands[0], groups);
  const DimRange experts = range_of(dims[0], context);
  const DimRange places = range_of(dims[dims.size() - 2], context);
  Shape shape = x.shape;
  shape[shape.size() - 2] = places.size / groups;
  shape.insert(shape.begin(), experts.size);
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  const int64_t width = shape.back();
  for_element_type(result.element, [&]<typename T>(std::type_identity<T>) {
    const T* from = x.data<T>();
    T* to = result.data<T>();
    for_each_place(in_groups_of_tokens(operands[1], groups), shape, experts,
                   [&](int64_t /*choice*/, int64_t token, int64_t offset) {
                     std::copy_n(from + token * width, width, to + offset);
                   });
  });
  shape.erase(shape.end() - 3);
  shape[shape.size() - 2] = places.size;
  return reshaped(result, shape);
}

std::optional<Shape> infer_combined(ShapeSpan operands,
                                    const Attributes& attributes, Span where,
                                    Diagnostics& diags) {
  const Shape& y = operands[0];
  const Shape& choices = operands[1];
  const bool fits =
      choices.size() >= 2 && y.size() == choices.size() + 1 &&
      std::equal(choices.begin(), choices.end() - 2, y.begin() + 1) &&
      (operands.size() < 3 || operands[2] == choices);
  if (!fits) {
    return refuse(diags, where, "cannot combine " + shapes_text(operands),
                  "give [experts, .., capacity, m], then choices and optional "
                  "weights, both [.., length, k]");
  }
  if (!are_grouped(attributes, choices[choices.size() - 2], y[y.size() - 2],
                   where, diags)) {
    return std::nullopt;
  }
  Shape result = choices;
  result.back() = y.back();
  return countable(std::move(result), where, diags);
}

Tensor run_combine(TensorSpan operands, const Attributes&,
                   const RunContext& context) {
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const int64_t groups = groups_here(dims, context);
  const Tensor y = in_groups_of_tokens(operands[0], groups);
  const bool weighted = operands.size() > 2;
  const Tensor weights = contiguous(operands[weighted ? 2 : 1]);
  const int64_t width = y.shape.back();
  Shape shape = weights.shape;
  shape.back() = width;
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    using T = typename Ring::Number;
    const T* from = y.data<T>();
    const T* weight = weights.data<T>();
    T* to = result.data<T>();
    for_each_place(in_groups_of_tokens(operands[1], groups), y.shape,
                   range_of(dims[0], context),
                   [&](int64_t choice, int64_t token, int64_t offset) {
                     const T share = weighted ? weight[choice] : T{1};
                     T* sum = to + token * width;
                     for (int64_t i = 0; i < width; ++i) {
                       sum[i] = Ring::add(
                           sum[i], Ring::multiply(share, from[offset + i]));
                     }
                   });
  });
  return result;
}

// Counts two per number of a row and choice, as if this device had the experts
// of all choices.
int64_t combine_flops(ShapeSpan operands, const Shape& result,
                      const Attributes&) {
  return saturating_product(saturating_product(2, operands[1].back()),
                            count_of(result));
}

constexpr AttributeDef kGroups = {
    "groups", Kind::Number, false,
    "equal parts of a sequence, each with its own capacity; default 1"};

}  // namespace

OpDef dispatch_op() {
  return {
      .name = "dispatch",
      .summary =
          "tokens [.., L, m] sent to their experts by choices [.., L, k]: "
          "[experts, .., capacity, m]",
      .min_operands = 2,
      .linearity = Linearity::Multilinear,
      .linear_in = {0},
      .attributes =
          {{"experts", Kind::Number, true, "number of experts"},
           {"capacity", Kind::Number, false,
            "tokens per expert and sequence, the rest are dropped; default L"},
           kGroups},
      .factors = "experts, .., groups and m",
      .infer = infer_dispatched,
      .rule = dispatch_rule,
      .flops = flops_per_element<0>,
      .run = run_dispatch,
      .recompute_cost = RecomputeCost::Expensive,
      .gradient = {.operands = ReadOperands::All, .only = {1}},
      .exchange = TokenExchange::ToExperts,
      .indices = [](ShapeSpan, const Shape& result) { return result[0]; }};
}

OpDef combine_op() {
  return {
      .name = "combine",
      .summary =
          "expert outputs [experts, .., capacity, m] times the weights of the "
          "choices (or 1), summed per token: [.., L, m]",
      .min_operands = 2,
      .max_operands = 3,
      .linearity = Linearity::Multilinear,
      .linear_in = {0, 2},
      .attributes = {kGroups},
      .factors = "experts, .., groups and m; experts give partial sums",
      .infer = infer_combined,
      .rule = combine_rule,
      .flops = combine_flops,
      .run = run_combine,
      .recompute_cost = RecomputeCost::Expensive,
      .gradient = {.operands = ReadOperands::All},
      .exchange = TokenExchange::FromExperts,
      .indices = [](ShapeSpan operands, const Shape&) {
        return operands[0][0];
      }};
}

}  // namespace shardplan
