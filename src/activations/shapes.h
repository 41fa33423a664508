// SPDX-License-Identifier: Apache-2.0
// What the layers of a model hold for backward where its forward pass is not
// known: from the shapes of its weights and what their dimensions are called.
//
// A weight [a, b] takes a numbers of every token and gives b, or the other way
// round, and both are there at some time. Which of them backward needs, and
// what is done between two weights, shapes do not tell, so that these ends are
// wider apart than those of a forward pass (activations/segments.h):
//
//   lower     of every layer its input, what heads give and take, and of every
//             other kind of dimension (MLP, latents) all widths but one
//   estimate  of every weight the width that is not the residual stream, and
//             what norms take and give
//   upper     of every weight both its widths, several times over, with copies
//             in float32 of what norms take
//
// Experts have the tokens that are sent to them. Logits are as in a forward
// pass; scores of attention, where they are held, are in the estimate and
// above. Towers of images and sounds have tokens of their own, which nobody has
// told: they are left out, and named.
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
  int64_t sequences = 1;      // on the fullest device, of a micro-batch
  int64_t length = 1;         // tokens of each, on all devices together
  int64_t source_length = 1;  // the same of an encoder beside a decoder
  AxisNames batch;            // of the mesh: those that cut the batch
  AxisNames sequence;         // and the tokens of a sequence
  AxisNames gathered;         // weights are gathered over these before use
  // Where the model has experts, how many of them a token goes to.
  std::optional<int64_t> experts_per_token;
  // Per parameter; empty: none is. The least is then what the weights that are
  // trained read: of each layer the widest of these, each at its narrower side
  // (which side a product reads, shapes do not tell), or where it is computed
  // again, its input.
  std::vector<bool> frozen = {};
};

struct ShapedLayers {
  StepLayers layers;
  // What is not among it: "154 parameters of `model.visual`".
  std::vector<std::string> left_out;
  // Positions are added to scores, which are held however attention is asked
  // for.
  bool holds_scores = false;
  // Why shapes do not tell, and then nothing else is there: no architecture
  // explains the parameters, layers are shared or not numbered, nobody says how
  // many experts a token goes to, or heads where scores are held.
  std::string unknown;
};
ShapedLayers layers_by_shapes(const Manifest& manifest, const Plan& plan,
                              const ShapedWorkload& workload,
                              const StepOptions& options);

}  // namespace shardplan
