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

using Kind = AttributeDef::Kind;

bool keeps_dims(const Attributes& attributes) {
  return integer_of(attributes, "keep", 1) != 0;
}

std::vector<bool> reduced_dims(const Attributes& attributes, size_t rank) {
  std::vector<bool> reduced(rank, false);
  for (const int64_t dim : integers_of(attributes, "dims")) {
    reduced[dim_at(dim, rank)] = true;
  }
  return reduced;
}

// Returns the result's dimensions: those of the operand, and `one` for those
// that are reduced but kept.
template <typename Dim>
std::vector<Dim> result_dims(const std::vector<Dim>& dims, const Dim& one,
                             const Attributes& attributes) {
  const std::vector<bool> reduced = reduced_dims(attributes, dims.size());
  std::vector<Dim> result;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (!reduced[dim]) {
      result.push_back(dims[dim]);
    } else if (keeps_dims(attributes)) {
      result.push_back(one);
    }
  }
  return result;
}

std::optional<Shape> infer_reduced(ShapeSpan operands,
                                   const Attributes& attributes, Span where,
                                   Diagnostics& diags) {
  const Shape& shape = operands[0];
  std::set<size_t> seen;
  for (const int64_t dim : integers_of(attributes, "dims")) {
    const auto at = find_dim(dim, shape, where, diags);
    if (!at) return std::nullopt;
    if (seen.insert(*at).second) continue;
    return refuse(diags, where,
                  "dimension " + std::to_string(*at) + " of " +
                      shape_text(shape) + " is in `dims` twice",
                  "name every dimension once");
  }
  const auto keep = find_integer(attributes, "keep", 1, where, diags);
  if (!keep) return std::nullopt;
  if (*keep != 0 && *keep != 1) {
    return refuse(
        diags, where, "`keep` is " + std::to_string(*keep),
        "write 1 to keep reduced dimensions with size 1, or 0 to remove them");
  }
  return countable(result_dims(shape, int64_t{1}, attributes), where, diags);
}

// Reports SP015 for a dimension without elements, which has no maximum.
std::optional<Shape> infer_max(ShapeSpan operands, const Attributes& attributes,
                               Span where, Diagnostics& diags) {
  auto result = infer_reduced(operands, attributes, where, diags);
  if (!result) return std::nullopt;
  const Shape& shape = operands[0];
  const std::vector<bool> reduced = reduced_dims(attributes, shape.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!reduced[dim] || shape[dim] != 0) continue;
    return refuse(diags, where,
                  "cannot take the maximum over dimension " +
                      std::to_string(dim) + " of " + shape_text(shape) +
                      ": it is empty",
                  "give the dimension at least one element");
  }
  return result;
}

template <FactorKind Kind>
ShardingRule reduction_rule(ShapeSpan operands, const Attributes& attributes) {
  const Shape& shape = operands[0];
  const std::vector<bool> reduced = reduced_dims(attributes, shape.size());
  ShardingRule rule;
  std::vector<DimFactors> dims;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    dims.push_back(
        add_factor(rule, shape[dim], reduced[dim] ? Kind : FactorKind::Pass));
  }
  rule.result = result_dims(dims, {}, attributes);
  rule.operands = {std::move(dims)};
  return rule;
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

// How numbers of each ring are summed; residues are below 2^20, so 2^33 of them
// are summed exactly.
template <typename T>
T sum_of(RealRing<T>, const Row<T>& row) {
  return pairwise_sum(row);
}
double sum_of(FieldRing, const Row<double>& row) {
  return field::residue(pairwise_sum(row));
}

// Returns NaN if any number is NaN.
template <typename T>
T maximum_of(RealRing<T>, const Row<T>& row) {
  T most = row.at(0);
  for (int64_t i = 1; i < row.count; ++i) {
    const T x = row.at(i);
    if (!(most >= x) && !std::isnan(most)) most = x;
  }
  return most;
}

// Returns the surrogate of the maximum (graph/elementwise.h).
double maximum_of(FieldRing, const Row<double>& row) {
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

// Sets every element of the result to fold(ring, row).
template <typename Fold>
Tensor run_reduced(TensorSpan operands, const Attributes& attributes,
                   const RunContext& context, const Fold& fold) {
  const Tensor& x = operands[0];
  const Tensor result =
      make_tensor(element_of(context.arithmetic),
                  result_dims(x.shape, int64_t{1}, attributes));
  for_ring(context.arithmetic, [&]<typename Ring>(Ring ring) {
    using T = typename Ring::Number;
    reduce_each<T>(x, reduced_dims(attributes, x.shape.size()), result,
                   context.threads,
                   [&](const Row<T>& row) { return fold(ring, row); });
  });
  return result;
}

Tensor run_sum(TensorSpan operands, const Attributes& attributes,
               const RunContext& context) {
  return run_reduced(
      operands, attributes, context,
      [](auto ring, const auto& row) { return sum_of(ring, row); });
}

// The parts of a mean are partial sums, each divided by the size of the whole.
Tensor run_mean(TensorSpan operands, const Attributes& attributes,
                const RunContext& context) {
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const std::vector<bool> reduced = reduced_dims(attributes, dims.size());
  double whole = 1;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (!reduced[dim]) continue;
    whole *= static_cast<double>(range_of(dims[dim], context).whole);
  }
  const double inverse = field::inverse(field::residue(whole));
  return run_reduced(operands, attributes, context,
                     [&]<typename Ring>(Ring ring, const auto& row) {
                       if constexpr (std::is_same_v<Ring, FieldRing>) {
                         return field::multiply(sum_of(ring, row), inverse);
                       } else {
                         return sum_of(ring, row) / Ring::of(whole);
                       }
                     });
}

Tensor run_max(TensorSpan operands, const Attributes& attributes,
               const RunContext& context) {
  return run_reduced(
      operands, attributes, context,
      [](auto ring, const auto& row) { return maximum_of(ring, row); });
}

OpDef reduction(std::string_view name, std::string_view summary) {
  return {
      .name = name,
      .summary = summary,
      .linearity = Linearity::Additive,
      .attributes = {{"dims", Kind::Integers, true,
                      "dimensions to reduce; -1 is the last"},
                     {"keep", Kind::Number, false,
                      "1 (default): keep them with size 1; 0: remove them"}},
      .factors = "every dimension; reduced ones give partial sums",
      .infer = infer_reduced,
      .rule = reduction_rule<FactorKind::Sum>,
      .flops = flops_per_element_read,
      .recompute_cost = RecomputeCost::Cheap,
      .is_reduction = true};
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
