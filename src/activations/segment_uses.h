// SPDX-License-Identifier: Apache-2.0
// The uses of segments in a training step, stage by stage, with what a policy
// of rematerialisation says of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "activations/buffers.h"
#include "activations/options.h"
#include "activations/step_memory.h"
#include "base/checked.h"

namespace shardplan {

// One use of a segment: of a layer that is left out, its stand-in's.
struct SegmentUse {
  size_t segment = 0;
  int64_t layer = -1;  // of the model, of its stack; -1: not a layer
  bool repeated = false;
  // What it adds where several layers are computed again together.
  int64_t more_layers = 0;
  bool saves = true;
  int64_t chunk = 0;    // of its stage, where these are interleaved
  Int128 weights = 0;   // bytes of its parameters on a device, for gradients
  Int128 matrices = 0;  // numbers that its products multiply with, on a device
  Int128 made = 0;      // bytes of its weights that are made and kept
};

// In the order of the program; of one stage where nothing is cut into stages.
std::vector<std::vector<SegmentUse>> uses_of_stages(const StepInput& input,
                                                    const LayerWeights& weights,
                                                    const StepOptions& options);

}  // namespace shardplan
