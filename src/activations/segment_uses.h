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

// Returns which segment a use is: "layer 31", "head and loss", "the embedding";
// "" between layers.
std::string segment_text(const SegmentUse& use,
                         const std::vector<Segment>& segments);

// Returns the elements that the products of all uses multiply with.
Int128 matrices_of(const std::vector<SegmentUse>& uses);

// Returns the bytes of all layers gathered at once, and of the largest weights
// outside of layers.
Int128 gathered_together(const std::vector<SegmentUse>& uses,
                         const GatheredSizes& gathered);

}  // namespace shardplan
