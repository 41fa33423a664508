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

std::optional<Shape> infer_sloped(std::span<const Shape> operands,
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
class Slopes {
 public:
  Slopes(const Attributes& attributes, const std::vector<DimFactors>& dims,
         const RunContext& context)
      : keys_(range_of(dims.back(), context)),
        by_(number_of(attributes, "by", 1)),
        in_bf16_(number_of(attributes, "bf16", 0) != 0) {
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
      slopes_.push_back(in_storage_type(slope_of(head, whole, steepest)));
    }
  }

  int64_t heads() const { return static_cast<int64_t>(slopes_.size()); }
  double at(int64_t head, int64_t key) const {
    return by_ * in_storage_type(slopes_[static_cast<size_t>(head)] *
                                 static_cast<double>(keys_.begin + key));
  }

 private:
  double in_storage_type(double x) const {
    if (!in_bf16_) return x;
    return static_cast<double>(rounded(static_cast<float>(x), Storage::BF16));
  }

  DimRange keys_;
  double by_;
  bool in_bf16_;
  std::vector<double> slopes_;
};

template <typename T, typename Add>
void add_slopes(const Slopes& slopes, const Tensor& result, const Add& add) {
  const size_t rank = result.shape.size();
  const int64_t queries = result.shape[rank - 2];
  const int64_t keys = result.shape[rank - 1];
  const int64_t rows = result.elements() / (queries * keys);
  T* score = result.data<T>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < queries * keys; ++i, ++score) {
      *score = add(*score, slopes.at(row % slopes.heads(), i % keys));
    }
  }
}

Tensor run_sloped(std::span<const Tensor> operands,
                  const Attributes& attributes, const RunContext& context) {
  const Tensor result = copy(operands[0]);
  if (result.elements() == 0) return result;
  const Slopes slopes(attributes, context.rule->operands[0], context);
  if (context.arithmetic == Arithmetic::Field) {
    add_slopes<double>(slopes, result, [](double score, double more) {
      return field::add(score, field::constant(more));
    });
    return result;
  }
  for_element_type(context.arithmetic, [&](auto type) {
    using T = typename decltype(type)::type;
    add_slopes<T>(slopes, result, [](T score, double more) {
      return score + static_cast<T>(more);
    });
  });
  return result;
}

}  // namespace

OpDef alibi_op() {
  OpDef op;
  op.name = "alibi";
  op.summary =
      "scores [B, heads.., Q, K] plus the key's position times the head's "
      "slope";
  using Kind = AttributeDef::Kind;
  op.attributes = {
      {"by", Kind::Number, false, "factor on the added bias; default 1"},
      {"steepest", Kind::Number, false,
       "the last slope is 2^-steepest; default 8"},
      {"bf16", Kind::Number, false,
       "1: round slopes and their products to bf16 (Falcon); default 0"}};
  op.factors = "every dimension of the scores";
  op.infer = infer_sloped;
  op.rule = elementwise_rule;
  op.flops = flops_per_element<2>;
  op.run = run_sloped;
  op.recompute_cost = RecomputeCost::Cheap;
  op.gradient = {.operands = ReadOperands::None};
  return op;
}

}  // namespace shardplan
