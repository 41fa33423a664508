// SPDX-License-Identifier: Apache-2.0
// Operations along the length of a sequence: convolutions that see no later
// token, and recurrences. None of them allows sharding of the length.
//
// causal_convolution: a depthwise convolution in which the last number of a
// kernel multiplies the token itself, like PyTorch's Conv1d with as many groups
// as channels, padded by kernel - 1 and cut to the length.
//
// linear_recurrence: a state per head, [N, P], that decays with every token,
// which then adds to it:
//
//   S_t = decay_t S_(t-1) + key_t value_t^T      y_t = query_t^T S_t
//
// This is the dual form of Mamba 2 (Dao and Gu, "Transformers are SSMs", 2024,
// eq. 5) with C, B and dt x as query, key and value; the selective scan of
// Mamba with a decay for every number of the state; and the matrix memory of
// xLSTM (Beck et al., 2024) without its stabiliser. Heads of one group share
// query and key. Sharding the state's N gives partial sums.
//
// delta_recurrence: the gated delta rule (Yang et al., "Gated Delta Networks",
// 2024, eq. 10) does not write the value but the part of it that the state
// lacks, at a rate:
//
//   S'_t = decay_t S_(t-1)
//   S_t = S'_t + key_t (rate_t (value_t - key_t^T S'_t))^T
//
// This needs all of N at once.
//
// decaying_maximum: m_t = max(m_(t-1) + decay_t, x_t), starting at 0. This is
// the stabiliser of exponential gates, whose numbers are logarithms (Beck et
// al., "xLSTM", 2024, eq. 15).
#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.h"
#include "graph/elementwise.h"
#include "graph/ops/ops.h"

namespace shardplan {
namespace {

using Kind = AttributeDef::Kind;

std::optional<Shape> infer_convolved(ShapeSpan operands, const Attributes&,
                                     Span where, Diagnostics& diags) {
  const Shape& x = operands[0];
  const Shape& kernel = operands[1];
  if (x.size() == 3 && kernel.size() == 2 && kernel[0] == x[2] &&
      kernel[1] > 0) {
    return x;
  }
  return refuse(diags, where,
                "cannot convolve " + shape_text(x) + " with kernels " +
                    shape_text(kernel),
                "give [batch, length, channels] and [channels, kernel]");
}

ShardingRule convolution_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  rule.result = add_factors(rule, operands[0], 1);
  rule.operands = {
      rule.result,
      {rule.result[2], add_factor(rule, operands[1][1], FactorKind::Whole)}};
  return rule;
}

int64_t convolution_flops(ShapeSpan operands, const Shape& result,
                          const Attributes&) {
  return saturating_product(saturating_product(2, operands[1][1]),
                            count_of(result));
}

Tensor run_convolved(TensorSpan operands, const Attributes&,
                     const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor kernel = contiguous(operands[1]);
  const Tensor result = make_tensor(element_of(context.arithmetic), x.shape);
  const int64_t length = x.shape[1];
  const int64_t channels = x.shape[2];
  const int64_t taps = kernel.shape[1];
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    using T = typename Ring::Number;
    const T* weights = kernel.data<T>();
    for (int64_t row = 0; row < x.shape[0] * length; ++row) {
      const int64_t seen = std::min(row % length + 1, taps);
      T* out = result.data<T>() + row * channels;
      for (int64_t back = seen - 1; back >= 0; --back) {
        const T* in = x.data<T>() + (row - back) * channels;
        for (int64_t c = 0; c < channels; ++c) {
          out[c] = Ring::add(
              out[c],
              Ring::multiply(in[c], weights[(c + 1) * taps - 1 - back]));
        }
      }
    }
  });
  return result;
}

// The rate of the delta rule, [B, L, H], is the fifth operand.
bool has_rates(ShapeSpan operands) { return operands.size() > 4; }

std::optional<Shape> infer_recurrence(ShapeSpan operands, const Attributes&,
                                      Span where, Diagnostics& diags) {
  const Shape& query = operands[0];
  const Shape& value = operands[2];
  const Shape& decay = operands[3];
  const bool ranks = query.size() == 4 && value.size() == 4 &&
                     (decay.size() == 3 || decay.size() == 4);
  const bool fits =
      ranks && operands[1] == query && value[0] == query[0] &&
      value[1] == query[1] && query[2] > 0 && value[2] % query[2] == 0 &&
      std::equal(decay.begin(), decay.begin() + 3, value.begin()) &&
      (decay.size() == 3 || decay[3] == query[3]) &&
      (!has_rates(operands) ||
       operands[4] == Shape(value.begin(), value.begin() + 3));
  if (fits) return value;
  const bool rates = has_rates(operands);
  return refuse(
      diags, where,
      std::string("queries, keys, values") +
          (rates ? ", decays and rates " : " and decays ") +
          shapes_text(operands) + " do not fit",
      "give [B, L, G, N] twice, [B, L, H, P] and [B, L, H] or [B, L, H, N]" +
          std::string(rates ? ", then [B, L, H]" : "") +
          ", H being a multiple of G");
}

ShardingRule recurrence_rule(ShapeSpan operands, const Attributes&) {
  ShardingRule rule;
  const Shape& query = operands[0];
  const Shape& value = operands[2];
  std::vector<DimFactors> shared =
      add_factors(rule, std::span(query).first(3), 1);
  DimFactors heads = shared[2];
  const DimFactors in_group =
      add_factor(rule, value[2] / query[2], FactorKind::Pass);
  heads.insert(heads.end(), in_group.begin(), in_group.end());
  const DimFactors state =
      add_factor(rule, query[3],
                 has_rates(operands) ? FactorKind::Whole : FactorKind::Sum);
  shared.push_back(state);
  const std::vector<DimFactors> rate = {shared[0], shared[1], heads};
  std::vector<DimFactors> decay = rate;
  if (operands[3].size() == 4) decay.push_back(state);
  rule.result = rate;
  rule.result.push_back(add_factor(rule, value[3], FactorKind::Pass));
  rule.operands = {shared, shared, rule.result, std::move(decay)};
  if (has_rates(operands)) rule.operands.push_back(rate);
  return rule;
}

// Counts, per number of a state, two products and a sum for the state, and a
// product and a sum for the result. The delta rule adds a product and a sum for
// the part of a value that the state has.
int64_t recurrence_flops(ShapeSpan operands, const Shape& result,
                         const Attributes&) {
  const int64_t each = has_rates(operands) ? 7 : 5;
  return saturating_product(saturating_product(each, operands[0][3]),
                            count_of(result));
}

template <typename Ring>
class Recurrence {
  using T = typename Ring::Number;

 public:
  Recurrence(TensorSpan operands, const Tensor& result)
      : query_(contiguous(operands[0])),
        key_(contiguous(operands[1])),
        value_(contiguous(operands[2])),
        decay_(contiguous(operands[3])),
        result_(result),
        states_(query_.shape[3]),
        width_(value_.shape[3]),
        corrects_(operands.size() > 4) {
    if (corrects_) rate_ = contiguous(operands[4]);
  }

  void run() {
    const int64_t length = value_.shape[1];
    const int64_t heads = value_.shape[2];
    const int64_t groups = query_.shape[2];
    if (result_.elements() == 0) return;
    const int64_t in_group = heads / groups;
    // Columns of a state are independent, so only this many are held at once.
    const int64_t columns =
        std::clamp<int64_t>(kHeld / std::max<int64_t>(1, states_), 1, width_);
    std::vector<T> state(to_size(states_ * columns));
    change_.resize(to_size(columns));
    for (int64_t b = 0; b < value_.shape[0]; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t first = 0; first < width_; first += columns) {
          const int64_t count = std::min(columns, width_ - first);
          std::fill(state.begin(), state.end(), T{0});
          for (int64_t t = b * length; t < (b + 1) * length; ++t) {
            token(t * groups + h / in_group, t * heads + h, first, count,
                  state.data());
          }
        }
      }
    }
  }

 private:
  static constexpr int64_t kHeld = int64_t{1} << 16;  // numbers of a state

  // Processes a token. `group` and `head` are the indices of the group's and
  // the head's rows; `first` and `count` select columns.
  void token(int64_t group, int64_t head, int64_t first, int64_t count,
             T* state) {
    const T* query = query_.data<T>() + group * states_;
    const T* key = key_.data<T>() + group * states_;
    const T* value = value_.data<T>() + head * width_ + first;
    const bool by_number = decay_.shape.size() == 4;
    const T* decay = decay_.data<T>() + head * (by_number ? states_ : 1);
    T* out = result_.data<T>() + head * width_ + first;
    if (corrects_) {
      return correct({query, key, value, decay, by_number},
                     rate_.data<T>()[head], count, state, out);
    }
    for (int64_t n = 0; n < states_; ++n, state += count) {
      const T kept = decay[by_number ? n : 0];
      for (int64_t p = 0; p < count; ++p) {
        state[p] = Ring::add(Ring::multiply(kept, state[p]),
                             Ring::multiply(key[n], value[p]));
        out[p] = Ring::add(out[p], Ring::multiply(query[n], state[p]));
      }
    }
  }

  struct Rows {
    const T* query;
    const T* key;
    const T* value;
    const T* decay;
    bool by_number;  // a decay for each number of a state
  };

  // Processes a token by the delta rule.
  void correct(const Rows& rows, T rate, int64_t count, T* state, T* out) {
    T* const change = change_.data();
    std::copy_n(rows.value, count, change);
    T* row = state;
    for (int64_t n = 0; n < states_; ++n, row += count) {
      const T kept = rows.decay[rows.by_number ? n : 0];
      for (int64_t p = 0; p < count; ++p) {
        row[p] = Ring::multiply(kept, row[p]);
        change[p] =
            Ring::subtract(change[p], Ring::multiply(rows.key[n], row[p]));
      }
    }
    for (int64_t p = 0; p < count; ++p) {
      change[p] = Ring::multiply(rate, change[p]);
    }
    row = state;
    for (int64_t n = 0; n < states_; ++n, row += count) {
      for (int64_t p = 0; p < count; ++p) {
        row[p] = Ring::add(row[p], Ring::multiply(rows.key[n], change[p]));
        out[p] = Ring::add(out[p], Ring::multiply(rows.query[n], row[p]));
      }
    }
  }

  Tensor query_;
  Tensor key_;
  Tensor value_;
  Tensor decay_;
  Tensor rate_;
  Tensor result_;
  int64_t states_;
  int64_t width_;
  bool corrects_;
  std::vector<T> change_;  // of the state, by the delta rule
};

Tensor run_recurrence(TensorSpan operands, const Attributes&,
                      const RunContext& context) {
  const Tensor result =
      make_tensor(element_of(context.arithmetic), operands[2].shape);
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    Recurrence<Ring>(operands, result).run();
  });
  return result;
}

std::optional<Shape> infer_decaying(ShapeSpan operands, const Attributes&,
                                    Span where, Diagnostics& diags) {
  if (operands[0] == operands[1] && operands[0].size() >= 2) return operands[0];
  return refuse(diags, where,
                "values and decays " + shapes_text(operands) + " do not fit",
                "give two values of the same shape [batch, length, ..]");
}

Tensor run_decaying(TensorSpan operands, const Attributes& attributes,
                    const RunContext& context) {
  const Tensor x = contiguous(operands[0]);
  const Tensor decay = contiguous(operands[1]);
  const Tensor result = make_tensor(element_of(context.arithmetic), x.shape);
  const bool before = number_of(attributes, "before", 0) != 0;
  if (x.elements() == 0) return result;
  const int64_t length = x.shape[1];
  const int64_t width = x.elements() / (x.shape[0] * length);
  for_ring(context.arithmetic, [&]<typename Ring>(Ring) {
    using T = typename Ring::Number;
    std::vector<T> most(to_size(width));
    for (int64_t t = 0; t < x.shape[0] * length; ++t) {
      if (t % length == 0) std::fill(most.begin(), most.end(), T{0});
      const T* in = x.data<T>() + t * width;
      const T* less = decay.data<T>() + t * width;
      T* out = result.data<T>() + t * width;
      for (T& at : most) {
        if (before) *out = at;
        at = Ring::maximum(Ring::add(at, *less++), *in++);
        if (!before) *out = at;
        ++out;
      }
    }
  });
  return result;
}

}  // namespace

OpDef causal_convolution_op() {
  return {.name = "causal_convolution",
          .summary =
              "causal depthwise convolution of x [B, L, C] with kernels [C, K]",
          .min_operands = 2,
          .linearity = Linearity::Multilinear,
          .factors = "B and C",
          .infer = infer_convolved,
          .rule = convolution_rule,
          .flops = convolution_flops,
          .run = run_convolved,
          .recompute_cost = RecomputeCost::Expensive,
          .gradient = {.operands = ReadOperands::OfOthers}};
}

OpDef linear_recurrence_op() {
  return {
      .name = "linear_recurrence",
      .summary =
          "states S = decay S + key value^T, read by query^T S: query and key "
          "[B, L, G, N], value [B, L, H, P], decay [B, L, H] or [B, L, H, N]",
      .min_operands = 4,
      .linearity = Linearity::Multilinear,
      .linear_in = {0, 1, 2},
      .factors = "every dimension but L; N gives partial sums",
      .infer = infer_recurrence,
      .rule = recurrence_rule,
      .flops = recurrence_flops,
      .run = run_recurrence,
      .recompute_cost = RecomputeCost::Expensive,
      .gradient = {.operands = ReadOperands::All}};
}

OpDef delta_recurrence_op() {
  OpDef op = linear_recurrence_op();
  op.name = "delta_recurrence";
  op.summary =
      "states S = S' + key (rate (value - key^T S'))^T with S' = decay S, read "
      "by query^T S: shapes as in linear_recurrence, and rate [B, L, H]";
  op.min_operands = op.max_operands = 5;
  op.linear_in = {0, 2};
  op.factors = "every dimension but L and N";
  return op;
}

OpDef decaying_maximum_op() {
  return {
      .name = "decaying_maximum",
      .summary = "m = max(m + decay, x) along the rows of x [B, L, ..], from 0",
      .min_operands = 2,
      .attributes = {{"before", Kind::Number, false,
                      "1: give m before each row; default 0"}},
      .factors = "every dimension but L",
      .infer = infer_decaying,
      .rule = whole_length_rule,
      .flops = flops_per_element<2>,
      .run = run_decaying,
      .recompute_cost = RecomputeCost::Expensive,
      .gradient = {.operands = ReadOperands::All, .result = true}};
}

}  // namespace shardplan
