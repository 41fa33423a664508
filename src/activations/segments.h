// SPDX-License-Identifier: Apache-2.0
// Segments: what the parts of one forward and backward pass hold on a device,
// both saved from forward to backward and live in between.
//
// A segment is a layer, or what precedes, separates or follows layers. A value
// belongs to the segment that computes it. Liveness follows the program's order
// of operations and its reverse. A value is live from where it is computed to
// where it is read last; a gradient, from where the last reader of a value
// computes it to where that value's own operation has used it. Gradients of
// weights are state (memory/state.h), except those that are unsharded for a
// moment because their weight was gathered. Frozen weights have no gradients,
// and before the first trained weight there are no gradients at all.
//
// Bytes are those of one device and one micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "activations/options.h"
#include "activations/remat.h"
#include "activations/saved_values.h"
#include "base/checked.h"
#include "spmd/program.h"

namespace shardplan {

struct SegmentMemory {
  // Bytes saved from forward to backward of what this segment computes. Bytes
  // in host memory are in `offloaded` and not in `saved`.
  Int128 saved = 0;
  Int128 offloaded = 0;
  // The part of `saved` that products read; with recomputation, all of it.
  Int128 sliced = 0;
  // The most bytes live at once, besides what earlier segments saved.
  Int128 forward = 0;
  Int128 backward = 0;
  // The part of both that logits and what a loss makes of them use.
  Int128 loss = 0;
  // Gradients of the values that later segments read.
  Int128 handed_on = 0;
  // Values of earlier segments that depend on weights: what a pipeline stage
  // that begins here receives.
  Int128 input = 0;
  // Saved bytes, and bytes live at the peak of backward, by value with layers
  // folded. kLogits stands for logits and what a loss makes of them.
  std::map<std::string, Int128> saved_by;
  std::map<std::string, Int128> backward_by;
};
inline constexpr std::string_view kLogits = "logits";

// A part of the pass, with its memory for each of the three figures. A figure
// uses the SavingMode of the same index, unless the step is known to run
// operation by operation.
struct Segment {
  std::string label;  // "layers.3"; "before layers", "behind layers"
  bool is_layer = false;
  // The largest softmax of attention, if scores are held, in the dtype of
  // activations.
  Int128 scores = 0;
  // Elements of the weights that torch.autocast casts for products.
  Int128 cast_weights = 0;
  // Outside layers, the largest weight that the segment reads: its elements on
  // a device, as it is stored, and whether it is trained.
  ValueId weight;
  Int128 weight_numbers = 0;
  bool trains_weight = false;
  std::array<SegmentMemory, kSavingModes> memory;
};

// Returns the bytes of logits and of what a loss makes of them, in the
// requested number of parts.
Int128 loss_bytes(const SegmentOptions& options, Int128 elements,
                  SavingMode figure);

// Returns the bytes of these copies of a segment's logits.
Int128 logits_as(const Segment& segment, SegmentOptions options,
                 LossCopies copies);

// Returns the segments in the order of the program. `remat` applies to all
// layers.
std::vector<Segment> segments_of(const Program& program,
                                 const SegmentOptions& options,
                                 const Remat& remat);

}  // namespace shardplan
