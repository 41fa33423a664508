// SPDX-License-Identifier: Apache-2.0
// What backward reads of a forward pass, operation by operation.
//
// The gradient of an operation reads some of its operands, its result, or
// neither: that of a product reads both factors, that of a sum nothing. What it
// reads must be kept from forward to backward, or computed again. How much that
// is depends on who runs it, so it is told three times:
//
//   Least  operations that are cheap to repeat (element by element, norms) are
//          repeated from products, as a compiler may do (min-cut partitioner of
//          torch.compile, XLA's rematerialisation)
//   Fused  what kernels for norms, activations and attention keep (Transformer
//          Engine, Apex, torch's own norms): inputs and one number per row
//   Eager  every operation by itself, norms and softmax in float32 (PyTorch
//          without compilation, jax.grad of plain jax.numpy)
//
// A product reads an operand for the gradient of the other one alone, so that
// with a frozen weight its input need not be kept: PyTorch's autograd saves
// what the gradients that are asked for read (should_compute_output), and a
// compiler removes what nobody reads. What the gradient of each operation reads
// is in its row (graph/op.h). FlashAttention (Dao et al., 2022) keeps
// q, k, v, the result and one number per query, whatever the length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "activations/bracket.h"
#include "activations/options.h"
#include "graph/graph.h"
#include "spmd/program.h"

namespace shardplan {

// What belongs together in a forward pass: the operations of a norm, of a
// softmax, or of attention from the scores to the mixed values, which one
// kernel may compute without writing down what is between.
struct FusedGroup {
  enum class Kind : uint8_t { Norm, Softmax, Attention } kind = Kind::Norm;
  std::vector<NodeId> nodes;    // in order; the last gives the result
  std::vector<ValueId> inputs;  // from outside, and no weights
  // The value of which it keeps numbers of float32, `numbers` per element of
  // it: means and roots, logarithms of sums.
  ValueId row;
  int numbers = 1;
  // The group is a softmax whose result weights the values of attention.
  bool mixes = false;
};
// Whether it is one kernel even where each operation is by itself, of a
// framework whose own are so (`native`): PyTorch's softmax and layer_norm.
bool is_one_kernel(const FusedGroup& group, bool native);
// A node is in one group at most; attention contains its softmax.
// `biased_flash`: flash attention also where a bias is trained that is added to
// the scores, whose gradient few kernels give.
std::vector<FusedGroup> fused_groups(const Graph& graph,
                                     AttentionKind attention,
                                     bool biased_flash = true);

// Of values that are tokens sent to their experts: how many of the places there
// are tokens take where every expert has as many, times `factor`; 1 of others.
// A graph has places for all tokens at every expert (graph/ops/experts.cc),
// which nobody allocates.
struct Share {
  int64_t part = 1;
  int64_t of = 1;
};
PerValue<Share> expert_shares(const Graph& graph, double factor);

}  // namespace shardplan
