// SPDX-License-Identifier: Apache-2.0
// How a training step is done: what decides its activations.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "activations/framework.h"
#include "activations/remat.h"

namespace shardplan {

inline constexpr int64_t kFloatBytes = 4;  // of float32

// How attention is computed.
enum class AttentionKind : uint8_t {
  Flash,   // scores are never held
  Scores,  // scores are held, of all queries and keys
};

// What of a model is dropped out as it trains.
struct Dropout {
  bool embeddings = false;
  bool attention = false;  // what attention adds to the stream
  bool mlp = false;        // the same of an MLP
  bool hidden = false;     // what an MLP's activation gives
  bool scores = false;     // of attention, where they are held
  bool adapters = false;   // the inputs of adapters
  // A mask is in the dtype of what it drops, rather than a byte per number.
  bool wide_masks = false;

  bool operator==(const Dropout&) const = default;
  bool any() const {
    return embeddings || attention || mlp || hidden || scores || adapters;
  }
};

struct SegmentOptions {
  int64_t element_bytes = 2;  // of activations
  // The answers in which activations are float32 in place of a narrower dtype.
  std::array<bool, kKeepings> in_float32{};
  // Of what an adapter computes, where that is more: it is computed in the
  // dtype of its weights, to which its input is converted.
  int64_t adapter_bytes = 0;
  AttentionKind attention = AttentionKind::Flash;
  // Versions of a framework differ: what the least and the most have instead.
  std::optional<AttentionKind> attention_at_least;
  std::optional<AttentionKind> attention_at_most;
  double expert_factor = 1;  // places of an expert per token that it gets
  int64_t loss_tiles = 1;    // parts in which logits are computed
  Dropout dropout;
  // Fused softmax makes its gradient in place (Megatron-LM's kernels).
  bool softmax_in_place = false;
  // No kernel fuses operations, for certain: every answer counts each of them.
  bool is_eager = false;
  // They run one by one as the program has them, rather than as a compiler
  // orders them: the loss is over before the backward of what gave its logits.
  bool runs_in_order = false;
  // Softmax and layer_norm are one kernel, even operation by operation.
  bool native_kernels = false;
  // A class computes its layer norms step by step, or the kernel reads a copy
  // in float32.
  bool layer_norm_is_several = false;
  bool layer_norm_in_float32 = false;
  // Tensors that SiLU keeps beside its input, operation by operation.
  int64_t silu_steps = 0;
  // The same of a GELU that is computed with a tanh, beside its result too.
  int64_t gelu_steps = 3;
  // Products of grouped heads, operation by operation, keep keys and values
  // repeated for all heads; so does one kernel of attention.
  bool repeats_heads = false;
  bool kernels_repeat_heads = true;
  // No kernel of attention takes grouped heads in this dtype, operation by
  // operation: its scores are held.
  bool scores_of_grouped_heads = false;
  // A kernel of attention takes a trained bias, and gives its gradient.
  bool kernels_take_bias = false;
  // Norms read the copy in float32 that they make of their input, and not the
  // input.
  bool norms_read_copies = false;
  // Norms round to the dtype of activations before they multiply with their
  // weight.
  bool norms_round_first = false;
  // Layers that are computed again keep all results that a policy names,
  // whether backward reads them or not (PyTorch's selective checkpointing).
  bool keeps_all_named = true;
  // Products alone are computed in the dtype of activations, all else in
  // float32 (torch.autocast).
  bool autocast = false;
  // The products of experts are none of those that autocast knows
  // (torch.nn.functional.grouped_mm), and stay in the dtype of their weights.
  bool autocast_skips_experts = false;
  // Softmax of scores that are held is computed in float32, and rounded.
  bool softmax_in_float32 = false;
  // What experts say is weighed before their last product, rather than as it is
  // added up.
  bool weighs_in_experts = false;
  // A recurrence runs in kernels of its own, which are not PyTorch's.
  bool recurrence_in_kernels = false;
  // Experts are stacks in the graph alone, and run one at a time.
  bool experts_apart = false;
  const Fp8Recipe* fp8 = nullptr;  // null: nothing is computed in 8 bits
  std::array<LossCopies, kKeepings> loss = frameworks().front().loss;

  bool operator==(const SegmentOptions&) const = default;
  bool is_widened() const {
    return element_bytes < kFloatBytes &&
           in_float32 != std::array<bool, kKeepings>{};
  }
  // The same for one of the three answers.
  SegmentOptions for_answer(Keeping answer) const {
    SegmentOptions own = *this;
    const auto& other = answer == Keeping::Least   ? attention_at_least
                        : answer == Keeping::Eager ? attention_at_most
                                                   : std::nullopt;
    if (!other) return own;
    own.attention = *other;
    if (*other == AttentionKind::Flash) {
      own.scores_of_grouped_heads = own.repeats_heads = false;
      own.kernels_take_bias = true;
    }
    return own;
  }
  // The same in float32, for the answers that are.
  SegmentOptions widened() const {
    SegmentOptions wide = *this;
    wide.element_bytes = std::max(element_bytes, kFloatBytes);
    wide.in_float32 = {};
    return wide;
  }
};

enum class PipelineSchedule : uint8_t {
  OneForwardOneBackward,  // 1F1B
  AllForward,             // GPipe: all micro-batches forward, then backward
  Interleaved,            // 1F1B over several chunks of layers per stage
};

struct StepOptions {
  SegmentOptions segments;
  Remat remat;
  int64_t microbatches = 1;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int64_t chunks = 1;  // of a stage, where interleaved
  // Micro-batches that go through a chunk before the next one begins; 0: as
  // many as there are stages.
  int64_t group = 0;
  int64_t group_with(int64_t stages) const {
    return group > 0 ? group : stages;
  }
  Kernels kernels = Kernels::Any;
  const FrameworkDef* framework = &frameworks().front();
  std::optional<Update> update;  // default: the framework's
  // Default: as the config says, where classes of transformers are known.
  std::optional<bool> drops_out;
};

}  // namespace shardplan
