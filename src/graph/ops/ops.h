// SPDX-License-Identifier: Apache-2.0
// Ops: functions that describe each operation; graph/op.cc has the table of
// all.
#pragma once

#include "graph/op.h"

namespace shardplan {

OpDef einsum_op();

// Operations on two operands, which are broadcast.
OpDef add_op();
OpDef subtract_op();
OpDef multiply_op();
OpDef divide_op();
OpDef maximum_op();

// Elementwise operations on one operand.
OpDef scale_op();
OpDef shift_op();
OpDef negate_op();
OpDef square_op();
OpDef exp_op();
OpDef rsqrt_op();
OpDef relu_op();
OpDef gelu_op();
OpDef silu_op();
OpDef tanh_op();
OpDef sigmoid_op();
OpDef softplus_op();
OpDef clamp_op();
OpDef xielu_op();

// Reductions over dimensions.
OpDef sum_op();
OpDef mean_op();
OpDef max_op();

OpDef embedding_op();
OpDef causal_mask_op();
OpDef rope_op();
OpDef position_scale_op();
OpDef relative_bias_op();
OpDef alibi_op();
OpDef token_positions_op();
OpDef last_token_op();

// Operations along the length of a sequence.
OpDef causal_convolution_op();
OpDef linear_recurrence_op();
OpDef delta_recurrence_op();
OpDef decaying_maximum_op();

// Operations of mixtures of experts.
OpDef top_k_op();
OpDef choice_mask_op();
OpDef mixer_shares_op();
OpDef take_op();
OpDef dispatch_op();
OpDef combine_op();

// Operations that only move numbers.
OpDef reshape_op();
OpDef transpose_op();
OpDef slice_op();
OpDef concatenate_op();
OpDef expand_op();
OpDef constraint_op();

}  // namespace shardplan
