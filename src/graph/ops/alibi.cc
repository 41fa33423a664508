// SPDX-License-Identifier: Apache-2.0
// ALiBi: adds to attention scores a number that grows with the position of the
// key, with a slope of its own for every head (Press et al., "Train Short, Test
// Long", 2021). A softmax does not depend on where positions are counted from,
// so this is equivalent to the distance between key and query.
//
// The slopes of n heads, n a power of two, are 2^(-8 i / n) for i from 1. For
// other numbers of heads, they are those of the next lower power, followed by
// every other slope of twice that power, as in the paper's code, BLOOM, Falcon
// and MPT.
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_sloped(ShapeSpan operands,
                                  const Attributes& attributes, Span where,
                                  Diagnostics& diags) {
  const double steepest = number_of(attributes, "steepest", 8);
  const double by = number_of(attributes, "by", 1);
  if (operands[0].size() < 4) {
    return refuse(diags, where,
                  "scores " + shape_text(operands[0]) + " have no heads",
                  "give [batch, heads, queries, keys], or heads in several "
                  "dimensions");
  }
  if (steepest > 0 && std::isfinite(steepest) && std::isfinite(by)) {
    return operands[0];
  }
  return refuse(diags, where,
                "`steepest` of alibi is " + std::to_string(steepest) +
                    ", and `by` is " + std::to_string(by),
                "give finite numbers, `steepest` above 0");
}

// Returns the slope of head `head` of `heads`, counted from 0.
double slope_of(int64_t head, int64_t heads, double steepest) {
  const auto power =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  const double step = steepest / static_cast<double>(power);
  if (head < power) return std::exp2(-step * static_cast<double>(head + 1));
  const int64_t odd = 2 * (head - power) + 1;
  return std::exp2(-step / 2 * static_cast<double>(odd));
}

// The numbers to add: slopes of this device's heads, row by row, times the
// positions of its keys.
struct Slopes {
  Slopes(const Attributes& attributes, const std::vector<DimFactors>& dims,
         const RunContext& context)
      : keys(range_of(dims.back(), context)),
        by(number_of(attributes, "by", 1)),
        in_bf16(number_of(attributes, "bf16", 0) != 0) {
    std::vector<int64_t> heads{0};
    int64_t whole = 1;
    for (size_t dim = 1; dim + 2 < dims.size(); ++dim) {
      const DimRange part = range_of(dims[dim], context);
      std::vector<int64_t> inner;
      for (const int64_t outer : heads) {
        for (int64_t i = 0; i < part.size; ++i) {
          inner.push_back(outer * part.whole + part.begin + i);
        }
      }
      heads = std::move(inner);
      whole *= part.whole;
    }
    const double steepest = number_of(attributes, "steepest", 8);
    for (const int64_t head : heads) {
      of_heads.push_back(in_storage_type(slope_of(head, whole, steepest)));
    }
  }

  double at(size_t head, int64_t key) const {
    return by * in_storage_type(of_heads[head] *
                                static_cast<double>(keys.begin + key));
  }
  double in_storage_type(double x) const {
    if (!in_bf16) return x;
    return static_cast<double>(rounded(static_cast<float>(x), Storage::BF16));
  }

  DimRange keys;
  double by;
  bool in_bf16;
  std::vector<double> of_heads;
};

Tensor run_sloped(TensorSpan operands, const Attributes& attributes,
                  const RunContext& context) {
  const Tensor result = copy(operands[0]);
  if (result.elements() == 0) return result;
  const Slopes slopes(attributes, context.rule->operands[0], context);
  const int64_t keys = result.shape.back();
  const int64_t of_head = result.shape[result.shape.size() - 2] * keys;
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    auto* score = result.data<typename Ring::Number>();
    auto* const end = score + result.elements();
    for (size_t row = 0; score != end; ++row) {
      const size_t head = row % slopes.of_heads.size();
      for (int64_t i = 0; i < of_head; ++i, ++score) {
        *score = Ring::add(*score, Ring::of(slopes.at(head, i % keys)));
      }
    }
  });
  return result;
}

}  // namespace

OpDef alibi_op() {
  return {
      .name = "alibi",
      .summary =
          "scores [B, heads.., Q, K] plus the key's position times the head's "
          "slope",
      .attributes =
          {{"by", Kind::Number, false, "factor on the added bias; default 1"},
           {"steepest", Kind::Number, false,
            "the last slope is 2^-steepest; default 8"},
           {"bf16", Kind::Number, false,
            "1: round slopes and their products to bf16 (Falcon); default 0"}},
      .factors = "every dimension of the scores",
      .infer = infer_sloped,
      .rule = elementwise_rule,
      .flops = flops_per_element<2>,
      .run = run_sloped,
      .recompute_cost = RecomputeCost::Cheap,
      .gradient = {.operands = ReadOperands::None}};
}

}  // namespace shardplan
