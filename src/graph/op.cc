// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include <algorithm>

#include "graph/ops/ops.h"

namespace shardplan {

std::span<const OpDef> ops() {
  static const std::vector<OpDef> kOps = {
      einsum_op(),      add_op(),        subtract_op(),  multiply_op(),
      divide_op(),      scale_op(),      negate_op(),    square_op(),
      exp_op(),         rsqrt_op(),      relu_op(),      gelu_op(),
      silu_op(),        tanh_op(),       sigmoid_op(),   sum_op(),
      mean_op(),        max_op(),        embedding_op(), causal_mask_op(),
      rope_op(),        top_k_op(),      take_op(),      dispatch_op(),
      combine_op(),     reshape_op(),    transpose_op(), slice_op(),
      concatenate_op(), constraint_op(),
  };
  return kOps;
}

const OpDef* find_op(std::string_view name) {
  const auto all = ops();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const OpDef& op) { return op.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool is_linear_in(const OpDef& op, int operand) {
  if (op.linearity != Linearity::Multilinear) return false;
  return op.linear_in.empty() ||
         std::find(op.linear_in.begin(), op.linear_in.end(), operand) !=
             op.linear_in.end();
}

}  // namespace shardplan
