// SPDX-License-Identifier: Apache-2.0
// Shapes: what the layers of a model hold for backward if its forward pass is
// not known, estimated from the shapes of its weights and the names of their
// dimensions.
//
// A weight [a, b] reads a numbers of every token and gives b, or the other way
// round, and both exist at some time. Shapes do not show which of them backward
// needs, or what happens between two weights, so these ends are farther apart
// than those of a forward pass (activations/segments.h):
//
//   lower     for every layer, its input and what heads read and give; for
//             every other kind of dimension (MLP, latents), all widths but one
//   estimate  for every weight, the width that is not the residual stream, and
//             what norms read and give
//   upper     for every weight, both its widths, several times over, with
//             copies in float32 of what norms read
//
// Experts have the tokens that are sent to them. Logits are as in a forward
// pass. Attention scores, if they are held, are in the estimate and the upper
// end. Towers of images and sounds have tokens of their own, whose number is
// not known: they are left out, and named.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "activations/options.h"
#include "activations/step_memory.h"
#include "core/manifest.h"
#include "core/plan.h"

namespace shardplan {

struct ShapedWorkload {
  int64_t sequences = 1;      // of a micro-batch, on the fullest device
  int64_t length = 1;         // tokens of each, on all devices together
  int64_t source_length = 1;  // the same for the encoder of a pair
  AxisNames batch;            // mesh axes that shard the batch
  AxisNames sequence;         // mesh axes that shard the tokens of a sequence
  AxisNames gathered;         // weights are gathered over these before use
  // How many experts a token goes to, if the model has experts.
  std::optional<int64_t> experts_per_token;
  // Per parameter; empty: none is. If set, the lower end is what trained
  // weights read: for each layer, the narrower side of its widest trained
  // weight (shapes do not show which side a product reads), or the layer's
  // input if it is recomputed.
  std::vector<bool> frozen = {};
};

struct ShapedLayers {
  StepLayers layers;
  // Parameters that are not included: "154 parameters of `model.visual`".
  std::vector<std::string> left_out;
  // Positions are added to scores, so scores are held whatever kind of
  // attention is requested.
  bool holds_scores = false;
  // Why shapes are not enough; if set, nothing else is. No architecture
  // explains the parameters, layers are shared or not numbered, or nothing
  // gives the number of experts per token, or of heads if scores are held.
  std::string unknown;
};
ShapedLayers layers_by_shapes(const Manifest& manifest, const Plan& plan,
                              const ShapedWorkload& workload,
                              const StepOptions& options);

}  // namespace shardplan
