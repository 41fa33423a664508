// SPDX-License-Identifier: Apache-2.0
// What XLA holds of a step whose layers are scanned, where that is not as
// operations are (activations/framework.h, JAX): gradients, which the backward
// loop writes into stacks of all layers, and copies of scores of attention.
#pragma once

#include <cstdint>

#include "activations/bracket.h"
#include "activations/framework.h"
#include "base/checked.h"
#include "core/facts.h"
#include "core/mesh.h"
#include "memory/state.h"

namespace shardplan {

// Of a device, in bytes.
struct LoopGradients {
  Int128 all = 0;
  Int128 layers = 0;     // of these, those of layers
  Int128 head = 0;       // numbers of the head's
  int64_t stored = 4;    // bytes of a gradient's number
  int64_t computed = 2;  // the same, as products make it
  bool sends = false;    // devices send to one another
};
// While a layer runs: all of the loop's, and the head's, which stays as its
// product made it until it is updated, and may be updated first.
Int128 gradients_in_loop(const LoopGradients& of, Keeping answer);
// While the head and the loss run: the stacks may be there before the loop
// begins. Where collectives are scheduled they are, maybe with copies.
Int128 gradients_at_loss(const LoopGradients& of, Keeping answer);
// Once the embedding's is there.
Int128 gradients_at_end(const LoopGradients& of, Keeping answer);

// What XLA for GPUs copies of scores that are held, in float32, `scores` of one
// layer. Of grouped heads maybe `stacked` layers', in place of gradients, which
// come after that.
Int128 scores_copied(const FrameworkDef& framework, const Facts& facts,
                     Int128 scores, int64_t stacked, Int128 gradients,
                     Keeping answer);

// XLA pads and cuts heads that the axes do not divide which cut them, where our
// partition has them whole.
bool pads_heads(const Mesh& mesh, const Facts& facts,
                const StateOptions& state);

}  // namespace shardplan
