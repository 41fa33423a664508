// SPDX-License-Identifier: Apache-2.0
// FrameworkDef: what a framework is known to hold in a training step beyond
// what its kernels keep of layers: at least, by the estimate, at most.
//
// "any" stands for all, and its ends are wide. Of Megatron-core (0.16) each
// entry is something that its code does, docs/design/megatron-memory.md has the
// places:
//
//   loss         VocabParallelCrossEntropy copies logits to float32, makes
//                their softmax and its gradient in place of the copy, and
//                converts that; logits may be there still
//   workspaces   32 MiB of Transformer Engine from compute capability 9 on, 4
//                below; PyTorch's for cuBLAS, 8.125 to 32 MiB per handle, of
//                which there are two: of forward and of autograd's thread
//                and four times as many for products of several experts at once
//   scores       transformer-impl local computes scores of attention into one
//                buffer that stays
//   softmax      its kernels make the gradient in place
//   mask         a byte per pair of tokens, from the loader of data, unless
//                --no-create-attention-mask-in-dataloader
//   inputs       every chunk of layers refers to its last input, which has its
//                gradient; one is being sent and one received
//   weight       without --gradient-accumulation-fusion the gradient of a
//   weight
//                is made in its dtype, then added to that in float32
//   gradients    one buffer from the beginning, whatever is accumulated
//   optimizer    updates in place
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "activations/bracket.h"

namespace shardplan {

// Copies of logits that are there together.
struct LossCopies {
  int64_t own = 0;  // in the dtype of activations
  int64_t floats = 0;
};

// What runs the step, where that is known: the bracket is narrower then.
enum class Kernels : uint8_t {
  Any,
  Fused,  // kernels for norms, attention, gated activations (Megatron-LM with
          // Transformer Engine)
  Eager,  // operation by operation (PyTorch without compilation)
};

struct FrameworkDef {
  template <typename T>
  using Ends = std::array<T, kKeepings>;

  std::string_view name;
  std::string_view summary;
  Kernels kernels = Kernels::Any;  // unless told otherwise
  Ends<LossCopies> loss{};
  Ends<int64_t> workspaces{};          // bytes
  Ends<int64_t> workspaces_experts{};  // the same, of a model with experts
  Ends<int64_t> scores{};  // buffers, where scores of attention are held
  Ends<int64_t> masks{};   // bytes per pair of tokens of a sequence
  // Inputs of a chunk of layers, where there are stages.
  Ends<int64_t> inputs{};
  Ends<int64_t> ends_of_stage{};  // the same, once per stage
  Ends<int64_t> weights{};        // gradients of the largest weight
  bool softmax_in_place = false;
  bool buffers_gradients = false;
  bool updates_in_place = false;
};

// The first is "any".
std::span<const FrameworkDef> frameworks();
const FrameworkDef* find_framework(std::string_view name);  // null: none

}  // namespace shardplan
