// SPDX-License-Identifier: Apache-2.0
// What a training step holds at its fullest moment, on the fullest device: a
// bracket of bytes that are allocated.
//
//   lower     what any implementation of this plan holds: state, and the least
//             that backward can do with (Keeping::Least)
//   estimate  with kernels for norms, attention and activations
//             (Keeping::Fused), the next layer gathered ahead
//   upper     every operation by itself (Keeping::Eager), all gradients from
//             the beginning, what frameworks hold beside these at the most
//             (activations/buffers.h)
// A frozen quantised weight stays packed in the lower end, is dequantised in
// the estimate, and is held in both forms in the upper end. If autograd keeps
// the dequantised weights, the estimate counts those of all layers.
//
// Moments that are looked at: the backward of every segment of every stage,
// with all that earlier segments and other micro-batches in flight have saved;
// and the optimizer's step. What an allocator reserves beyond what is
// allocated, and what a runtime takes for itself, is not among it
// (--fragmentation, --reserve). Sources: micro-batches in flight as in
// Megatron-LM's schedules (1F1B: Narayanan et al., 2021; interleaved: chunks
// warmed up).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "activations/bracket.h"
#include "activations/options.h"
#include "activations/segments.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "memory/budget.h"
#include "sim/repeated_layers.h"

namespace shardplan {

// What the parts of a model hold, in their order: from its forward pass, or
// from shapes (activations/shapes.h).
struct StepLayers {
  std::vector<Segment> plain;
  std::vector<Segment> repeated;  // where layers are computed again
  // Both with all of it in float32; empty where no answer is
  // (SegmentOptions::in_float32).
  std::vector<Segment> wide_plain = {};
  std::vector<Segment> wide_repeated = {};
  // Of layers that stand for others; none: all are there.
  std::optional<LayerCycle> cycle;
  int64_t layers = 0;             // of the model
  std::vector<int64_t> layer_of;  // per parameter; -1: outside of layers
  std::vector<bool> frozen = {};  // per parameter; empty: none
  // A layer saves its input itself, rather than the one that makes it.
  bool saves_inputs = false;
};
StepLayers step_layers(const ForwardGraphs& model,
                       const RepeatedProgram& program,
                       const StepOptions& options);
// The same, of parts that are known where nothing is computed again.
StepLayers step_layers(const ForwardGraphs& model,
                       const RepeatedProgram& program,
                       const StepOptions& options, std::vector<Segment> plain);

struct StepInput {
  const Manifest& manifest;
  const Plan& plan;
  const Budget& budget;
  const BudgetOptions& options;
  const StepLayers& layers;
  // Of tokens of a sequence with all, of the sequences that a device has.
  Int128 token_pairs = 0;
  Int128 tokens = 0;  // of those
  // Bytes of the largest weight that is made of quantised values for a moment.
  Int128 dequantised = 0;
  // Per layer, bytes of all that are made of such, where these stay until its
  // backward has run; empty: they do not.
  std::vector<Int128> kept_made = {};
};

// Empty, with the reason reported (SP017), beyond 63 bits.
std::optional<MemoryBracket> step_memory(const StepInput& input,
                                         const StepOptions& options,
                                         Diagnostics& diags);

}  // namespace shardplan
