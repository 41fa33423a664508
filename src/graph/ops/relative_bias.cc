// SPDX-License-Identifier: Apache-2.0
// Relative bias: adds to attention scores a number that depends on the distance
// between a key and its query (Raffel et al., "Exploring the Limits of Transfer
// Learning", 2020, 2.1).
//
// Distances fall into buckets. Half of the buckets hold one distance each, the
// others logarithmically more, up to `max_distance`, beyond which all distances
// share one bucket; with `both_sides`, this applies to each side of the query.
// The bucket indices are those of transformers'
// T5Attention._relative_position_bucket, which computes logarithms in float32.
// So does this code, in every precision. Queries and keys begin at the same
// position.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_biased(ShapeSpan operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const Shape& scores = operands[0];
  const Shape& table = operands[1];
  if (scores.size() != 4 || table.size() != 2 || table[1] != scores[1]) {
    return refuse(diags, where,
                  "scores " + shape_text(scores) + " and a table " +
                      shape_text(table) + " do not fit",
                  "give [batch, heads, queries, keys] and [buckets, heads]");
  }
  const auto farthest =
      find_integer(attributes, "max_distance", 128, where, diags);
  if (!farthest) return std::nullopt;
  const bool both = number_of(attributes, "both_sides", 0) != 0;
  const int64_t exact = table[0] / (both ? 4 : 2);
  if (exact >= 1 && *farthest > exact) return scores;
  return refuse(
      diags, where,
      std::to_string(table[0]) + " buckets up to a distance of " +
          std::to_string(*farthest) + " cannot distinguish distances",
      "give a `max_distance` above the distances that have their own bucket");
}

ShardingRule bias_rule(ShapeSpan operands, const Attributes& attributes) {
  ShardingRule rule = elementwise_rule(operands.first(1), attributes);
  rule.operands.push_back(
      {add_factor(rule, operands[1][0], FactorKind::Whole), rule.result[1]});
  return rule;
}

class Buckets {
 public:
  Buckets(const Attributes& attributes, int64_t buckets)
      : both_(number_of(attributes, "both_sides", 0) != 0),
        count_(both_ ? buckets / 2 : buckets),
        exact_(count_ / 2),
        logarithm_(static_cast<float>(
            std::log(number_of(attributes, "max_distance", 128) /
                     static_cast<double>(exact_)))) {}

  // Returns the bucket of a key that is this far after its query.
  int64_t of(int64_t distance) const {
    const int64_t side = both_ && distance > 0 ? count_ : 0;
    const int64_t far =
        both_ ? std::abs(distance) : std::max<int64_t>(0, -distance);
    if (far < exact_) return side + far;
    const float share =
        std::log(static_cast<float>(far) / static_cast<float>(exact_)) /
        logarithm_ * static_cast<float>(count_ - exact_);
    // Distances are below 2^40, so their logarithms are small.
    return side + std::min(exact_ + static_cast<int64_t>(share), count_ - 1);
  }

 private:
  bool both_;
  int64_t count_;  // buckets of one side
  int64_t exact_;
  float logarithm_;
};

Tensor run_biased(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
  const Tensor result = copy(operands[0]);
  const Tensor table = contiguous(operands[1]);
  const std::vector<DimFactors>& dims = context.rule->operands[0];
  const DimRange queries = range_of(dims[2], context);
  const DimRange keys = range_of(dims[3], context);
  const Buckets buckets(attributes, table.shape[0]);
  if (result.elements() == 0) return result;
  std::vector<int64_t> bucket_of;  // per query and key
  for (int64_t q = 0; q < queries.size; ++q) {
    for (int64_t k = 0; k < keys.size; ++k) {
      bucket_of.push_back(buckets.of(keys.begin + k - queries.begin - q));
    }
  }
  const int64_t heads = table.shape[1];
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    using T = typename Ring::Number;
    T* score = result.data<T>();
    for (int64_t row = 0; row < result.shape[0] * heads; ++row) {
      const T* column = table.data<T>() + row % heads;
      for (const int64_t bucket : bucket_of) {
        *score = Ring::add(*score, column[bucket * heads]);
        ++score;
      }
    }
  });
  return result;
}

}  // namespace

OpDef relative_bias_op() {
  return {
      .name = "relative_bias",
      .summary =
          "scores [B, H, Q, K] plus a bias from a table [buckets, H], by the "
          "distance of query and key",
      .min_operands = 2,
      .linearity = Linearity::Additive,
      .attributes =
          {{"both_sides", Kind::Number, false,
            "1: distinguish keys after a query from keys before it; default 0"},
           {"max_distance", Kind::Number, false,
            "distances from here on share a bucket; default 128"}},
      .factors = "every dimension of the scores",
      .infer = infer_biased,
      .rule = bias_rule,
      .flops = flops_per_element<1>,
      .run = run_biased,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::None},
      .is_trained_bias = true};
}

}  // namespace shardplan
