// SPDX-License-Identifier: Apache-2.0
// Segment uses: the uses of segments in a training step, stage by stage, and
// whether a policy of rematerialisation recomputes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "activations/buffers.h"
#include "activations/options.h"
#include "activations/step_memory.h"
#include "base/checked.h"

namespace shardplan {

// One use of a segment. A layer that is left out uses the segment of its
// stand-in.
struct SegmentUse {
  size_t segment = 0;
  int64_t layer = -1;  // of the model; -1: not a layer
  bool recomputed = false;
  // How many more layers are recomputed together with this one.
  int64_t more_layers = 0;
  bool saves = true;
  int64_t chunk = 0;    // of its stage, if chunks are interleaved
  Int128 weights = 0;   // trained bytes of its parameters on a device
  Int128 matrices = 0;  // elements on a device that its products multiply with
  // Bytes of its dequantised weights that are saved.
  Int128 saved_dequantised = 0;
};

// Returns the uses per stage, in the order of the program; without a pipeline,
// there is one stage.
std::vector<std::vector<SegmentUse>> uses_of_stages(const StepInput& input,
                                                    const LayerWeights& weights,
                                                    const StepOptions& options);

// The moments of a step on one stage: the backward of use i is i, its forward
// is kForward - i, and the others are these.
inline constexpr int64_t kUpdateStep = -1;  // the optimizer's
inline constexpr int64_t kForwardEnd = -2;  // before backward begins
inline constexpr int64_t kForward = -3;
// Whether a moment comes before another one.
struct Earlier {
  bool operator()(int64_t a, int64_t b) const;
};

// Returns "backward of layer 31", "the optimizer's step".
std::string moment_text(int64_t moment, const std::vector<SegmentUse>& uses,
                        const std::vector<Segment>& segments);
// Returns what an axis shows: "forward layer 31", "layer 31" for its backward,
// "optimizer".
std::string moment_label(int64_t moment, const std::vector<SegmentUse>& uses,
                         const std::vector<Segment>& segments);

// Returns the elements that the products of all uses multiply with.
Int128 matrices_of(const std::vector<SegmentUse>& uses);

// Returns the bytes of all layers gathered at once, and of the largest weights
// outside of layers.
Int128 gathered_together(const std::vector<SegmentUse>& uses,
                         const GatheredSizes& gathered);

}  // namespace shardplan
