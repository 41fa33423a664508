// SPDX-License-Identifier: Apache-2.0
// Options: how a training step is run, as far as its activations depend on it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "activations/framework.h"
#include "activations/remat.h"

namespace shardplan {

inline constexpr int64_t kFloatBytes = 4;  // of one float32

// How attention is computed.
enum class AttentionKind : uint8_t {
  Flash,   // scores are never held
  Scores,  // scores are held, of all queries and keys
};

// The values to which dropout applies in training.
struct Dropout {
  bool embeddings = false;
  bool attention = false;  // the output of attention
  bool mlp = false;        // the output of an MLP
  bool hidden = false;     // the result of an MLP's activation
  bool scores = false;     // attention scores, if they are held
  bool adapters = false;   // the inputs of adapters
  // A mask has the dtype of what it drops, rather than a byte per element.
  bool wide_masks = false;

  bool operator==(const Dropout&) const = default;
  bool any() const {
    return embeddings || attention || mlp || hidden || scores || adapters;
  }
};

struct SegmentOptions {
  int64_t element_bytes = 2;  // of activations
  // The figures in which activations are float32 instead of a narrower dtype.
  std::array<bool, kSavingModes> in_float32{};
  // Bytes per element of an adapter's values, if more than `element_bytes`: an
  // adapter computes in the dtype of its weights, to which its input is
  // converted.
  int64_t adapter_bytes = 0;
  AttentionKind attention = AttentionKind::Flash;
  // How the lower and the upper end compute attention, if framework versions
  // differ.
  std::optional<AttentionKind> attention_at_least;
  std::optional<AttentionKind> attention_at_most;
  double expert_factor = 1;  // slots of an expert per token that it receives
  int64_t loss_tiles = 1;    // parts in which logits are computed
  Dropout dropout;
  // The fused softmax computes its gradient in place (Megatron-LM's kernels).
  bool softmax_in_place = false;
  // It is certain that no kernel fuses operations: every figure counts each of
  // them.
  bool is_eager = false;
  // Operations run one by one in the order of the program, rather than as a
  // compiler orders them: the loss ends before the backward of what computed
  // its logits.
  bool runs_in_order = false;
  // Softmax and layer_norm are one kernel each, even operation by operation.
  bool native_kernels = false;
  // A model class computes its layer norms step by step, or their kernel reads
  // a copy in float32.
  bool layer_norm_is_several = false;
  bool layer_norm_in_float32 = false;
  // Tensors that SiLU saves besides its input, operation by operation.
  int64_t silu_steps = 0;
  // Tensors that a GELU computed with tanh saves besides its input and its
  // result.
  int64_t gelu_steps = 3;
  // Products of grouped heads, operation by operation, save keys and values
  // repeated for all heads; so does one kernel of attention.
  bool repeats_heads = false;
  bool kernels_repeat_heads = true;
  // No kernel of attention supports grouped heads in this dtype, operation by
  // operation, so scores are held.
  bool scores_of_grouped_heads = false;
  // A kernel of attention supports a trained bias and computes its gradient.
  bool kernels_take_bias = false;
  // Norms read the float32 copy that they make of their input instead of the
  // input.
  bool norms_read_copies = false;
  // Norms round to the dtype of activations before they multiply with their
  // weight.
  bool norms_round_first = false;
  // Recomputed layers save all results that a policy names, even if backward
  // does not read them (PyTorch's selective checkpointing).
  bool saves_all_named = true;
  // Only products are computed in the dtype of activations, and everything else
  // in float32 (torch.autocast).
  bool autocast = false;
  // Autocast does not know the products of experts
  // (torch.nn.functional.grouped_mm), so they stay in the dtype of their
  // weights.
  bool autocast_skips_experts = false;
  // Softmax of held scores is computed in float32 and then rounded.
  bool softmax_in_float32 = false;
  // The answers of experts are weighted before their last product rather than
  // when they are summed.
  bool weighs_in_experts = false;
  // A recurrence runs in kernels of its own rather than in PyTorch's.
  bool recurrence_in_kernels = false;
  // Experts are stacks only in the graph, and run one at a time.
  bool experts_one_by_one = false;
  const Fp8Recipe* fp8 = nullptr;  // null: nothing is computed in 8 bits
  std::array<LossCopies, kSavingModes> loss = frameworks().front().loss;

  bool operator==(const SegmentOptions&) const = default;
  bool is_widened() const {
    return element_bytes < kFloatBytes &&
           in_float32 != std::array<bool, kSavingModes>{};
  }
  // Returns the options of one of the three figures.
  SegmentOptions for_figure(SavingMode figure) const {
    SegmentOptions own = *this;
    const auto& other = figure == SavingMode::Least   ? attention_at_least
                        : figure == SavingMode::Eager ? attention_at_most
                                                      : std::nullopt;
    if (!other) return own;
    own.attention = *other;
    if (*other == AttentionKind::Flash) {
      own.scores_of_grouped_heads = own.repeats_heads = false;
      own.kernels_take_bias = true;
    }
    return own;
  }
  // Returns the options in float32, for the figures that use it.
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
  int64_t chunks = 1;  // per stage, if interleaved
  // Micro-batches that pass a chunk before the next one begins; 0: as many as
  // there are stages.
  int64_t group = 0;
  int64_t group_with(int64_t stages) const {
    return group > 0 ? group : stages;
  }
  Kernels kernels = Kernels::Any;
  const FrameworkDef* framework = &frameworks().front();
  std::optional<Update> update;  // default: the framework's
  // Default: as the config says, if model classes of transformers are known.
  std::optional<bool> drops_out;
  bool has_curve = false;  // MemoryBracket::curve is asked for
};

}  // namespace shardplan
