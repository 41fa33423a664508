// SPDX-License-Identifier: Apache-2.0
// Operations of mixtures of experts. The first is top_k: the indices of the
// largest numbers of a row.
//
// The largest number comes first; of equal ones, the lower index, as in
// jax.lax.top_k and in torch.topk on a CPU. A NaN counts as larger than any
// number, as in both. Indices are numbers of the element type. In the field,
// residues are compared as integers.
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/composites.h"
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
  op.attributes = {
      {"k", AttributeDef::Kind::Number, true, "number of indices"}};
  op.factors = "every dimension but the last";
  op.infer = infer_chosen;
  op.rule = choice_rule;
  op.flops = choice_flops;
  op.run = run_choice;
  op.is_decision = true;
  op.recompute_cost = RecomputeCost::Expensive;
  op.gradient = {.operands = ReadOperands::None};
  op.chooses_indices = true;
  return op;
}

// Masks the numbers of groups that were not chosen, for models that choose
// experts from a few groups (DeepSeek-V2, 2024, section 2.1.2).

namespace {

std::optional<Shape> infer_of_chosen(std::span<const Shape> operands,
                                     const Attributes& /*attributes*/,
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

ShardingRule of_chosen_rule(std::span<const Shape> operands,
                            const Attributes& /*attributes*/) {
  ShardingRule rule;
  for (const int64_t size : operands[0]) {
    rule.result.push_back(add_factor(rule, size, FactorKind::Pass));
  }
  std::vector<DimFactors> choices(rule.result.begin(), rule.result.end() - 2);
  choices.push_back(add_factor(rule, operands[1].back(), FactorKind::Whole));
  rule.operands = {rule.result, std::move(choices)};
  return rule;
}

// Copies the rows of x [rows, groups, n] whose groups are chosen; `groups` is
// the range of x's groups among all.
template <typename T>
void copy_chosen(const Tensor& x, const Tensor& choices, const DimRange& groups,
                 const Tensor& result) {
  const int64_t k = choices.shape.back();
  const int64_t n = x.shape.back();
  const int64_t rows = k == 0 ? 0 : choices.elements() / k;
  const T* choice = choices.data<T>();
  const int64_t row_size = groups.size * n;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < k; ++i, ++choice) {
      const int64_t group = index_of(*choice, groups.whole) - groups.begin;
      if (group < 0 || group >= groups.size) continue;
      const int64_t at = row * row_size + group * n;
      std::copy_n(x.data<T>() + at, n, result.data<T>() + at);
    }
  }
}

Tensor run_choice_mask(std::span<const Tensor> operands,
                       const Attributes& /*attributes*/,
                       const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor choices = contiguous(operands[1]);
  const Tensor result = make_tensor(element_of(context.arithmetic), x.shape);
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const DimRange groups = range_of(dims[dims.size() - 2], context);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    std::fill_n(result.data<T>(), result.elements(),
                context.arithmetic == Arithmetic::Field
                    ? T{0}
                    : -std::numeric_limits<T>::infinity());
    copy_chosen<T>(x, choices, groups, result);
  });
  return result;
}

}  // namespace

OpDef choice_mask_op() {
  OpDef op;
  op.name = "choice_mask";
  op.summary =
      "x [.., groups, n], with -inf for groups not among choices [.., k]";
  op.min_operands = 2;
  op.max_operands = 2;
  op.factors = "every dimension of x";
  op.is_mask = true;
  op.infer = infer_of_chosen;
  op.rule = of_chosen_rule;
  op.flops = flops_per_element<1>;
  op.run = run_choice_mask;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::All, .only = {1}};
  return op;
}

// The shares of experts that are chosen one after another, as Phi 3.5 MoE
// computes them in inference (Liu et al., "GRIN", 2024; SparseMixer). Each
// share comes from a softmax over the scores that were not chosen before it and
// are within 2 `jitter` of it, relative to the larger of the two scores.

namespace {

std::optional<Shape> infer_shares(std::span<const Shape> operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const Shape& scores = operands[0];
  const Shape& choices = operands[1];
  const double jitter = number_of(attributes, "jitter", 0);
  if (!scores.empty() && scores.size() == choices.size() &&
      std::equal(scores.begin(), scores.end() - 1, choices.begin()) &&
      choices.back() <= scores.back() && jitter >= 0 && std::isfinite(jitter)) {
    return choices;
  }
  return refuse(
      diags, where, "cannot compute shares of " + shapes_text(operands),
      "give scores [.., n], choices [.., k] of these, and `jitter` 0 or more");
}

ShardingRule shares_rule(std::span<const Shape> operands,
                         const Attributes& /*attributes*/) {
  ShardingRule rule;
  const Shape& scores = operands[0];
  for (size_t dim = 0; dim + 1 < scores.size(); ++dim) {
    rule.result.push_back(add_factor(rule, scores[dim], FactorKind::Pass));
  }
  rule.operands = {rule.result, rule.result};
  rule.operands[0].push_back(
      add_factor(rule, scores.back(), FactorKind::Whole));
  rule.result.push_back(
      add_factor(rule, operands[1].back(), FactorKind::Whole));
  rule.operands[1] = rule.result;
  return rule;
}

int64_t shares_flops(std::span<const Shape> operands, const Shape& result,
                     const Attributes& /*attributes*/) {
  return saturating_product(saturating_product(4, operands[0].back()),
                            count_of(result));
}

// Returns the share of `chosen` among the scores of one token that are left.
template <typename T>
T share_of(const T* scores, const std::vector<bool>& left, size_t chosen,
           double jitter) {
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

template <typename T>
T field_share_of(const T* scores, const std::vector<bool>& left,
                 size_t chosen) {
  double sum = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i]) sum = field::add(sum, field_cubic(scores[i], {5, 31, 7, 11}));
  }
  return static_cast<T>(
      field::multiply(sum, field_cubic(scores[chosen], {3, 17, 43, 29})));
}

Tensor run_shares(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& context) {
  const Tensor scores = contiguous(operands[0]);
  const Tensor choices = contiguous(operands[1]);
  const Tensor result =
      make_tensor(element_of(context.arithmetic), choices.shape);
  const double jitter = number_of(attributes, "jitter", 0);
  const int64_t n = scores.shape.back();
  const int64_t k = choices.shape.back();
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    for (int64_t at = 0; at < choices.elements();
         at += std::max<int64_t>(k, 1)) {
      const T* row = scores.data<T>() + at / k * n;
      std::vector<bool> left(static_cast<size_t>(n), true);
      for (int64_t j = at; j < at + k; ++j) {
        const int64_t index = index_of(choices.data<T>()[j], n);
        if (index < 0) continue;  // no expert, no share
        const auto chosen = static_cast<size_t>(index);
        T& share = result.data<T>()[j];
        if (context.arithmetic == Arithmetic::Field) {
          share = field_share_of(row, left, chosen);
        } else {
          share = share_of(row, left, chosen, jitter);
        }
        left[chosen] = false;
      }
    }
  });
  return result;
}

}  // namespace

OpDef mixer_shares_op() {
  OpDef op;
  op.name = "mixer_shares";
  op.summary =
      "weights of choices [.., k], each a softmax over nearby scores [.., n] "
      "not yet chosen";
  op.min_operands = 2;
  op.max_operands = 2;
  op.attributes = {{"jitter", AttributeDef::Kind::Number, true,
                    "half the largest relative distance of nearby scores"}};
  op.factors = "every dimension but the last";
  op.infer = infer_shares;
  op.rule = shares_rule;
  op.flops = shares_flops;
  op.run = run_shares;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::All};
  return op;
}

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

namespace {

// Returns whether both shapes are [.., length, ?], differing only in the last
// dimension.
bool are_of_the_same_tokens(const Shape& a, const Shape& b) {
  return a.size() >= 2 && a.size() == b.size() &&
         std::equal(a.begin(), a.end() - 1, b.begin());
}

// Returns whether groups of tokens divide a sequence and its slots; else
// reports SP015.
bool are_grouped(const Attributes& attributes, int64_t length, int64_t places,
                 Span where, Diagnostics& diags) {
  const auto groups = find_integer(attributes, "groups", 1, where, diags);
  if (!groups) return false;
  if (*groups >= 1 && length % *groups == 0 && places % *groups == 0) {
    return true;
  }
  diags
      .error(Code::InvalidGraph, where,
             std::to_string(*groups) + " groups do not divide " +
                 std::to_string(length) + " tokens and a capacity of " +
                 std::to_string(places))
      .help("give `groups` that divide the length and the capacity");
  return false;
}

std::optional<Shape> infer_dispatched(std::span<const Shape> operands,
                                      const Attributes& attributes, Span where,
                                      Diagnostics& diags) {
  const Shape& x = operands[0];
  if (!are_of_the_same_tokens(x, operands[1])) {
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

// The rule of both operations. Their tensors are [experts, batch.., capacity,
// m], [batch.., length, m] and, for choices and weights, [batch.., length, k].
struct RoutingRule {
  ShardingRule rule;
  std::vector<DimFactors> of_experts;
  std::vector<DimFactors> of_tokens;
  std::vector<DimFactors> of_choices;
};

RoutingRule routing_rule(const Shape& of_experts, const Shape& of_choices,
                         int64_t groups, FactorKind experts) {
  RoutingRule result;
  ShardingRule& rule = result.rule;
  result.of_experts.push_back(add_factor(rule, of_experts[0], experts));
  const size_t batches = of_choices.size() - 2;
  for (size_t dim = 0; dim < batches; ++dim) {
    result.of_tokens.push_back(
        add_factor(rule, of_choices[dim], FactorKind::Pass));
    result.of_experts.push_back(result.of_tokens.back());
  }
  const DimFactors group =
      groups > 1 ? add_factor(rule, groups, FactorKind::Pass) : DimFactors();
  const auto in_groups = [&](int64_t size) {
    DimFactors factors = group;
    const DimFactors rest = add_factor(rule, size / groups, FactorKind::Whole);
    factors.insert(factors.end(), rest.begin(), rest.end());
    return factors;
  };
  result.of_tokens.push_back(in_groups(of_choices[batches]));
  result.of_choices = result.of_tokens;
  result.of_choices.push_back(
      add_factor(rule, of_choices[batches + 1], FactorKind::Whole));
  result.of_experts.push_back(in_groups(of_experts[batches + 1]));
  result.of_experts.push_back(
      add_factor(rule, of_experts[batches + 2], FactorKind::Pass));
  result.of_tokens.push_back(result.of_experts.back());
  return result;
}

ShardingRule dispatch_rule(std::span<const Shape> operands,
                           const Attributes& attributes) {
  Diagnostics none;
  RoutingRule made = routing_rule(
      *infer_dispatched(operands, attributes, {}, none), operands[1],
      integer_of(attributes, "groups", 1), FactorKind::Pass);
  made.rule.operands = {made.of_tokens, made.of_choices};
  made.rule.result = made.of_experts;
  return std::move(made.rule);
}

ShardingRule combine_rule(std::span<const Shape> operands,
                          const Attributes& attributes) {
  RoutingRule made =
      routing_rule(operands[0], operands[1],
                   integer_of(attributes, "groups", 1), FactorKind::Sum);
  made.rule.operands = {made.of_experts, made.of_choices};
  if (operands.size() > 2) made.rule.operands.push_back(made.of_choices);
  made.rule.result = made.of_tokens;
  return std::move(made.rule);
}

// Returns the number of groups of tokens on this device. `dims` are those of
// [experts, batch.., places, m].
int64_t groups_here(const std::vector<DimFactors>& dims,
                    const RunContext& context) {
  const DimFactors& places = dims[dims.size() - 2];
  if (places.empty()) return 1;
  const auto major = static_cast<size_t>(places.front());
  return context.rule->factors[major].kind == FactorKind::Pass
             ? range_of({places.front()}, context).size
             : 1;
}

// The rows of [experts, batch.., capacity, m] for the experts of one device.
class ExpertRows {
 public:
  ExpertRows(const Tensor& row_major, const DimRange& experts)
      : experts_(experts), width_(row_major.shape.back()) {
    const Shape& shape = row_major.shape;
    capacity_ = shape[shape.size() - 2];
    for (size_t dim = 1; dim + 2 < shape.size(); ++dim)
      sequences_ *= shape[dim];
  }

  int64_t width() const { return width_; }
  int64_t capacity() const { return capacity_; }
  int64_t experts() const { return experts_.whole; }

  // Returns the offset in elements of a place's row, or -1 if this device has
  // no such row.
  int64_t offset(const ExpertPlace& place, int64_t sequence) const {
    const int64_t expert = place.expert - experts_.begin;
    if (place.slot < 0 || expert < 0 || expert >= experts_.size) return -1;
    return ((expert * sequences_ + sequence) * capacity_ + place.slot) * width_;
  }

 private:
  DimRange experts_;
  int64_t sequences_ = 1;
  int64_t capacity_ = 0;
  int64_t width_ = 0;
};

// Calls visit(choice, token, offset of its row) for every choice that has a row
// on this device. `choice` and `token` are indices among all.
template <typename Visit>
void for_each_row_of(const Tensor& choices, const ExpertRows& rows,
                     const Visit& visit) {
  const std::vector<ExpertPlace> places =
      places_of(choices, rows.experts(), rows.capacity());
  const int64_t k = choices.shape.back();
  const int64_t length = choices.shape[choices.shape.size() - 2];
  for (size_t i = 0; i < places.size(); ++i) {
    const auto choice = static_cast<int64_t>(i);
    const int64_t token = choice / k;
    const int64_t offset = rows.offset(places[i], token / length);
    if (offset >= 0) visit(choice, token, offset);
  }
}

Tensor run_dispatch(std::span<const Tensor> operands,
                    const Attributes& /*attributes*/,
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
  const ExpertRows rows(result, experts);
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* from = x.data<T>();
    T* to = result.data<T>();
    for_each_row_of(in_groups_of_tokens(operands[1], groups), rows,
                    [&](int64_t /*choice*/, int64_t token, int64_t offset) {
                      std::copy_n(from + token * rows.width(), rows.width(),
                                  to + offset);
                    });
  });
  shape.erase(shape.end() - 3);
  shape[shape.size() - 2] = places.size;
  return reshaped(result, shape);
}

std::optional<Shape> infer_combined(std::span<const Shape> operands,
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

Tensor run_combine(std::span<const Tensor> operands,
                   const Attributes& /*attributes*/,
                   const RunContext& context) {
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const int64_t groups = groups_here(dims, context);
  const Tensor y = in_groups_of_tokens(operands[0], groups);
  const bool weighted = operands.size() > 2;
  const Tensor weights = contiguous(operands[weighted ? 2 : 1]);
  const ExpertRows rows(y, range_of(dims[0], context));
  Shape shape = weights.shape;
  shape.back() = rows.width();
  const Tensor result = make_tensor(element_of(context.arithmetic), shape);
  const auto add_rows = [&](auto type, const auto& plus) {
    using T = typename decltype(type)::type;
    const T* from = y.data<T>();
    const T* weight = weights.data<T>();
    T* to = result.data<T>();
    for_each_row_of(in_groups_of_tokens(operands[1], groups), rows,
                    [&](int64_t choice, int64_t token, int64_t offset) {
                      const T share = weighted ? weight[choice] : T{1};
                      T* sum = to + token * rows.width();
                      for (int64_t i = 0; i < rows.width(); ++i) {
                        sum[i] = plus(sum[i], share, from[offset + i]);
                      }
                    });
  };
  if (context.arithmetic == Arithmetic::Field) {
    add_rows(std::type_identity<double>{},
             [](double sum, double weight, double value) {
               return field::residue(sum + weight * value);
             });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    add_rows(type,
             [](T sum, T weight, T value) { return sum + weight * value; });
  });
  return result;
}

// Counts two per number of a row and choice, as if this device had the experts
// of all choices.
int64_t combine_flops(std::span<const Shape> operands, const Shape& result,
                      const Attributes& /*attributes*/) {
  return saturating_product(saturating_product(2, operands[1].back()),
                            count_of(result));
}

constexpr AttributeDef kGroups = {
    "groups", AttributeDef::Kind::Number, false,
    "equal parts of a sequence, each with its own capacity; default 1"};

int64_t experts_of_result(std::span<const Shape> /*operands*/,
                          const Shape& result) {
  return result[0];
}

int64_t experts_of_answers(std::span<const Shape> operands,
                           const Shape& /*result*/) {
  return operands[0][0];
}

}  // namespace

OpDef dispatch_op() {
  OpDef op;
  op.name = "dispatch";
  op.summary =
      "tokens [.., L, m] sent to their experts by choices [.., L, k]: "
      "[experts, .., capacity, m]";
  op.min_operands = 2;
  op.max_operands = 2;
  op.linearity = Linearity::Multilinear;
  op.linear_in = {0};
  op.attributes = {
      {"experts", AttributeDef::Kind::Number, true, "number of experts"},
      {"capacity", AttributeDef::Kind::Number, false,
       "tokens per expert and sequence, the rest are dropped; default L"},
      kGroups};
  op.factors = "experts, .., groups and m";
  op.infer = infer_dispatched;
  op.rule = dispatch_rule;
  op.flops = flops_per_element<0>;
  op.run = run_dispatch;
  op.recompute_cost = RecomputeCost::Expensive;
  op.gradient = {.operands = ReadOperands::All, .only = {1}};
  op.exchange = TokenExchange::ToExperts;
  op.indices = experts_of_result;
  return op;
}

OpDef combine_op() {
  OpDef op;
  op.name = "combine";
  op.summary =
      "expert outputs [experts, .., capacity, m] times the weights of the "
      "choices (or 1), summed per token: [.., L, m]";
  op.min_operands = 2;
  op.max_operands = 3;
  op.linearity = Linearity::Multilinear;
  op.linear_in = {0, 2};
  op.attributes = {kGroups};
  op.factors = "experts, .., groups and m; experts give partial sums";
  op.infer = infer_combined;
  op.rule = combine_rule;
  op.flops = combine_flops;
  op.run = run_combine;
  op.recompute_cost = RecomputeCost::Expensive;
  op.gradient = {.operands = ReadOperands::All};
  op.exchange = TokenExchange::FromExperts;
  op.indices = experts_of_answers;
  return op;
}

}  // namespace shardplan
