// SPDX-License-Identifier: Apache-2.0
// Reductions: sums, means and maxima over dimensions.
//
// Sums are pairwise, in the working precision: a row is halved until at most
// 128 terms are left, which eight running sums add up in turn. The error grows
// with log2 n, like NumPy's (Higham, "The Accuracy of Floating Point
// Summation", 1993), and the order depends only on the sizes.
#include <array>
#include <cmath>
#include <set>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

bool keeps_dims(const Attributes& attributes) {
  return integer_of(attributes, "keep", 1) != 0;
}

std::vector<bool> reduced_dims(const Attributes& attributes, size_t rank) {
  std::vector<bool> reduced(rank, false);
  for (const int64_t dim : integers_of(attributes, "dims")) {
    reduced[static_cast<size_t>(dim_at(dim, rank))] = true;
  }
  return reduced;
}

std::optional<Shape> infer_reduced(std::span<const Shape> operands,
                                   const Attributes& attributes, Span where,
                                   Diagnostics& diags) {
  const Shape& shape = operands[0];
  std::set<int> seen;
  for (const int64_t dim : integers_of(attributes, "dims")) {
    const auto at = find_dim(dim, shape, where, diags);
    if (!at) return std::nullopt;
    if (seen.insert(*at).second) continue;
    return diags
        .error(Code::InvalidGraph, where,
               "dimension " + std::to_string(*at) + " of " + shape_text(shape) +
                   " is in `dims` twice")
        .help("name every dimension once");
  }
  const auto keep = find_integer(attributes, "keep", 1, where, diags);
  if (!keep) return std::nullopt;
  if (*keep != 0 && *keep != 1) {
    return diags
        .error(Code::InvalidGraph, where, "`keep` is " + std::to_string(*keep))
        .help(
            "write 1 to keep reduced dimensions with size 1, or 0 to remove "
            "them");
  }
  Shape result;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!seen.contains(static_cast<int>(dim))) {
      result.push_back(shape[dim]);
    } else if (*keep == 1) {
      result.push_back(1);
    }
  }
  return countable(std::move(result), where, diags);
}

// Reports SP015 for a dimension without elements, which has no maximum.
std::optional<Shape> infer_max(std::span<const Shape> operands,
                               const Attributes& attributes, Span where,
                               Diagnostics& diags) {
  auto result = infer_reduced(operands, attributes, where, diags);
  if (!result) return std::nullopt;
  const Shape& shape = operands[0];
  const std::vector<bool> reduced = reduced_dims(attributes, shape.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!reduced[dim] || shape[dim] != 0) continue;
    return diags
        .error(Code::InvalidGraph, where,
               "cannot take the maximum over dimension " + std::to_string(dim) +
                   " of " + shape_text(shape) + ": it is empty")
        .help("give the dimension at least one element");
  }
  return result;
}

template <FactorKind Kind>
ShardingRule reduction_rule(std::span<const Shape> operands,
                            const Attributes& attributes) {
  const Shape& shape = operands[0];
  const std::vector<bool> reduced = reduced_dims(attributes, shape.size());
  ShardingRule rule;
  std::vector<DimFactors> dims;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    dims.push_back(
        add_factor(rule, shape[dim], reduced[dim] ? Kind : FactorKind::Pass));
    if (!reduced[dim]) {
      rule.result.push_back(dims.back());
    } else if (keeps_dims(attributes)) {
      rule.result.emplace_back();
    }
  }
  rule.operands.push_back(std::move(dims));
  return rule;
}

int64_t reduction_flops(std::span<const Shape> operands,
                        const Shape& /*result*/,
                        const Attributes& /*attributes*/) {
  return count_of(operands[0]);
}

// Numbers that are `step` apart.
template <typename T>
struct Row {
  const T* data;
  int64_t count;
  int64_t step;

  T at(int64_t i) const { return data[i * step]; }
};

template <typename T>
T pairwise_sum(const Row<T>& row) {
  constexpr int64_t kLanes = 8;
  constexpr int64_t kBlock = 128;
  if (row.count > kBlock) {
    const int64_t half = row.count / 2 / kLanes * kLanes;
    return pairwise_sum(Row<T>{row.data, half, row.step}) +
           pairwise_sum(
               Row<T>{row.data + half * row.step, row.count - half, row.step});
  }
  std::array<T, kLanes> lanes{};
  const int64_t even = row.count / kLanes * kLanes;
  for (int64_t i = 0; i < even; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[static_cast<size_t>(lane)] += row.at(i + lane);
    }
  }
  T sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
          ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  for (int64_t i = even; i < row.count; ++i) sum += row.at(i);
  return sum;
}

// Residues are below 2^20, so 2^33 of them are summed exactly.
double field_sum(const Row<double>& row) {
  return field::residue(pairwise_sum(row));
}

// Returns NaN if any number is NaN.
template <typename T>
T maximum(const Row<T>& row) {
  T most = row.at(0);
  for (int64_t i = 1; i < row.count; ++i) {
    const T x = row.at(i);
    if (!(most >= x) && !std::isnan(most)) most = x;
  }
  return most;
}

// Returns the surrogate of the maximum (graph/elementwise.h).
double field_maximum(const Row<double>& row) {
  double sum = 0;
  for (int64_t i = 0; i < row.count; ++i) {
    sum = field::add(sum, field::maximum_term(row.at(i)));
  }
  return field::maximum_of(sum);
}

// Calls fold for every element of the result, with the row of `x` that it
// reduces. The reduced dimensions of `x` are put last and joined; in `result`
// they have size 1 or are absent.
template <typename T, typename Fold>
void reduce_each(const Tensor& x, const std::vector<bool>& reduced,
                 const Tensor& result, int threads, const Fold& fold) {
  std::vector<int> order;
  Shape joined;
  int64_t count = 1;
  for (size_t dim = 0; dim < reduced.size(); ++dim) {
    if (reduced[dim]) continue;
    order.push_back(static_cast<int>(dim));
    joined.push_back(x.shape[dim]);
  }
  const Shape kept = joined;
  for (size_t dim = 0; dim < reduced.size(); ++dim) {
    if (!reduced[dim]) continue;
    order.push_back(static_cast<int>(dim));
    count *= x.shape[dim];
  }
  joined.push_back(count);
  const Tensor rows = reshaped(permuted(x, order), joined);
  Strides strides = rows.strides;
  const int64_t step = strides.back();
  strides.pop_back();
  const Tensor to = reshaped(result, kept);
  for_each_row<2>(
      kept, {to.strides, strides}, threads, count,
      [&](int64_t n, const std::array<int64_t, 2>& offsets,
          const std::array<int64_t, 2>& steps) {
        T* out = to.data<T>() + offsets[0];
        const T* in = rows.data<T>() + offsets[1];
        for (int64_t i = 0; i < n; ++i) {
          out[i * steps[0]] = fold(Row<T>{in + i * steps[1], count, step});
        }
      });
}

Tensor empty_result(const Tensor& x, const std::vector<bool>& reduced,
                    const Attributes& attributes, const RunContext& context) {
  Shape shape;
  for (size_t dim = 0; dim < reduced.size(); ++dim) {
    if (!reduced[dim]) {
      shape.push_back(x.shape[dim]);
    } else if (keeps_dims(attributes)) {
      shape.push_back(1);
    }
  }
  return make_tensor(element_of(context.arithmetic), shape);
}

Tensor run_sum(std::span<const Tensor> operands, const Attributes& attributes,
               const RunContext& context) {
  const Tensor& x = operands[0];
  const auto reduced = reduced_dims(attributes, x.shape.size());
  const Tensor result = empty_result(x, reduced, attributes, context);
  if (context.arithmetic == Arithmetic::Field) {
    reduce_each<double>(x, reduced, result, context.threads, field_sum);
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    reduce_each<T>(x, reduced, result, context.threads, pairwise_sum<T>);
  });
  return result;
}

// The parts of a mean are partial sums, each divided by the size of the whole.
Tensor run_mean(std::span<const Tensor> operands, const Attributes& attributes,
                const RunContext& context) {
  const Tensor& x = operands[0];
  const auto reduced = reduced_dims(attributes, x.shape.size());
  double whole = 1;
  for (size_t dim = 0; dim < reduced.size(); ++dim) {
    if (!reduced[dim]) continue;
    const DimFactors& factors = context.rule->operands[0][dim];
    whole *= static_cast<double>(range_of(factors, context).whole);
  }
  const Tensor result = empty_result(x, reduced, attributes, context);
  if (context.arithmetic == Arithmetic::Field) {
    const double share = field::inverse(field::residue(whole));
    reduce_each<double>(x, reduced, result, context.threads,
                        [&](const Row<double>& row) {
                          return field::multiply(field_sum(row), share);
                        });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    reduce_each<T>(x, reduced, result, context.threads, [&](const Row<T>& row) {
      return pairwise_sum(row) / static_cast<T>(whole);
    });
  });
  return result;
}

Tensor run_max(std::span<const Tensor> operands, const Attributes& attributes,
               const RunContext& context) {
  const Tensor& x = operands[0];
  const auto reduced = reduced_dims(attributes, x.shape.size());
  const Tensor result = empty_result(x, reduced, attributes, context);
  if (context.arithmetic == Arithmetic::Field) {
    reduce_each<double>(x, reduced, result, context.threads, field_maximum);
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    reduce_each<T>(x, reduced, result, context.threads, maximum<T>);
  });
  return result;
}

OpDef reduction(std::string_view name, std::string_view summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.linearity = Linearity::Additive;
  op.attributes = {{"dims", AttributeDef::Kind::Integers, true,
                    "dimensions to reduce; -1 is the last"},
                   {"keep", AttributeDef::Kind::Number, false,
                    "1 (default): keep them with size 1; 0: remove them"}};
  op.factors = "every dimension; reduced ones give partial sums";
  op.infer = infer_reduced;
  op.rule = reduction_rule<FactorKind::Sum>;
  op.flops = reduction_flops;
  op.is_reduction = true;
  op.recompute_cost = RecomputeCost::Cheap;
  return op;
}

}  // namespace

OpDef sum_op() {
  OpDef op = reduction("sum", "sum over dimensions");
  op.is_sum = true;
  op.run = run_sum;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

OpDef mean_op() {
  OpDef op = reduction("mean", "mean over dimensions");
  op.run = run_mean;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

OpDef max_op() {
  OpDef op = reduction("max", "maximum over dimensions");
  op.linearity = Linearity::None;
  op.factors = "every dimension; reduced ones give partial maxima";
  op.infer = infer_max;
  op.rule = reduction_rule<FactorKind::Max>;
  op.run = run_max;
  op.gradient = {.operands = ReadOperands::All, .result = true};
  return op;
}

}  // namespace shardplan
