// SPDX-License-Identifier: Apache-2.0
// Step memory: the bytes that a training step has allocated at its peak, on the
// fullest device, as a bracket.
//
//   lower     what any implementation of this plan holds: state, and the least
//             that backward needs (SavingMode::Least)
//   estimate  with kernels for norms, attention and activations
//             (SavingMode::Fused), and the next layer gathered ahead
//   upper     every operation separately (SavingMode::Eager), all gradients
//   from
//             the beginning, and the most that frameworks hold besides these
//             (activations/buffers.h)
//
// A frozen quantised weight stays packed in the lower end, is dequantised in
// the estimate, and is held in both forms in the upper end. If autograd saves
// the dequantised weights, the estimate counts those of all layers.
//
// The moments considered are the backward of every segment of every stage, with
// all that earlier segments and other micro-batches in flight have saved, and
// the optimizer's step. What an allocator reserves beyond allocations, and what
// a runtime uses itself, is not included (--fragmentation, --reserve). Sources:
// micro-batches in flight as in Megatron-LM's schedules (1F1B: Narayanan et
// al., 2021; interleaved: chunks warmed up).
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

// The memory of the parts of a model, in their order: from its forward pass, or
// from shapes (activations/shapes.h).
struct StepLayers {
  std::vector<Segment> plain;
  std::vector<Segment> recomputed;  // with layers recomputed
  // Both in float32; empty if no figure uses that (SegmentOptions::in_float32).
  std::vector<Segment> wide_plain = {};
  std::vector<Segment> wide_recomputed = {};
  // The layers that stand for others; not set: all layers are there.
  std::optional<LayerCycle> cycle;
  int64_t layers = 0;             // of the model
  std::vector<int64_t> layer_of;  // per parameter; -1: outside layers
  std::vector<bool> frozen = {};  // per parameter; empty: none
  // Every layer saves its own input, rather than the segment that computes it.
  bool saves_inputs = false;
};
// Measures the layers of a program. `plain` are its segments without
// recomputation (segments_of).
StepLayers step_layers(const ForwardGraphs& model,
                       const RepeatedProgram& program,
                       const StepOptions& options, std::vector<Segment> plain);

struct StepInput {
  const Manifest& manifest;
  const Plan& plan;
  const Budget& budget;
  const BudgetOptions& options;
  const StepLayers& layers;
  // Pairs of tokens of one sequence, over the sequences of a device.
  Int128 token_pairs = 0;
  Int128 tokens = 0;  // tokens of those sequences
  // Bytes of the largest weight that is dequantised for a moment.
  Int128 dequantised = 0;
  // Per layer, bytes of all dequantised weights, if these stay until the
  // layer's backward has run; empty: they do not.
  std::vector<Int128> saved_dequantised = {};
};

// Returns nullopt, with the reason reported (SP017), beyond 63 bits.
std::optional<MemoryBracket> step_memory(const StepInput& input,
                                         const StepOptions& options,
                                         Diagnostics& diags);

}  // namespace shardplan
