// SPDX-License-Identifier: Apache-2.0
// Stages: which layers, and what stands before and after them, live where on a
// pipeline axis.
//
// Layers are split contiguously, as even as can be, the remainder to the first
// stages. The embedding is on the first stage, the final norm and the head on
// the last; a model without a head of its own uses the embedding as one, so it
// is on both. Other tensors outside of layers go by their place in the
// manifest: those before the first layer to the first stage, the others to the
// last. Layers beyond the number that the facts tell (multi-token prediction)
// are on the last stage, as in Megatron. A tensor whose spec names the pipeline
// axis is cut over it as planned, and so on every stage.
// Invariant: every parameter is on at least one stage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "memory/layers.h"

namespace shardplan {

// A pipeline over one mesh axis: whole layers, embedding first, head last.
struct Stages {
  AxisName axis;
  std::vector<int64_t> layers;  // per stage; empty: as even as can be
};

struct StagePlan {
  size_t axis = 0;  // of the mesh
  int64_t stages = 1;
  int64_t layers = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges;  // of layers, [begin, end)
  // Per unit of LayerUnits: its stages, one or (a tied embedding) two; none
  // for a unit of stacked layers, which its spec must cut.
  std::vector<std::vector<int64_t>> stages_of;
  std::string tied;          // the unit that is on two stages; "" if none
  int64_t extra_layers = 0;  // beyond the facts, on the last stage
  bool uneven = false;       // layers do not divide by stages
};

// Empty, with the reason reported (SP010): no such axis, layers that cannot be
// told, a sum of layers that is not the model's, more stages than layers.
// `cut_by_axis[kind]`: its spec names the axis.
std::optional<StagePlan> plan_stages(const Manifest& manifest, const Mesh& mesh,
                                     const LayerUnits& units,
                                     const std::vector<bool>& cut_by_axis,
                                     const Stages& stages, Diagnostics& diags);

// "stage 0: embedding, layers 0-7"
std::string stage_label(const StagePlan& plan, const LayerUnits& units,
                        int64_t stage);

}  // namespace shardplan
