// SPDX-License-Identifier: Apache-2.0
// How long the parts of one forward and backward pass take on a device, and
// what they send, for one micro-batch.
//
// A program's instructions are priced one by one: products by shape, attention
// as a kernel where it is one, everything else by the bytes that it reads and
// writes. What runs as one kernel follows from the way of keeping
// (activations/kept.h): operation by operation, with kernels for norms and
// attention, or element-by-element operations fused with one another.
//
// Backward follows from the graph: a product has a product for each operand
// that has a gradient. A gradient is a partial sum over the axes along which
// readers of a value were cut and the value itself was not; it is summed there
// (an all-reduce; a reduce-scatter where the value had been gathered).
// What is computed again runs before the backward of its layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "activations/kept.h"
#include "activations/options.h"
#include "activations/remat.h"
#include "comm/collective.h"
#include "core/hardware.h"
#include "cost/kernels.h"
#include "spmd/program.h"

namespace shardplan {

// A card whose matrix units are busy for seconds on end lowers its clock to
// stay within its power; tables are of short runs. Prefills of Llama 3.1 8B on
// an H100 reach 0.82 to 0.88 of what its products alone do.
inline constexpr double kWarmProducts = 1.1;

// A collective that an instruction or its backward runs.
struct SentPart {
  CollectiveKind kind = CollectiveKind::AllReduce;
  AxisNames axes;    // of the program's mesh, major to minor
  double bytes = 0;  // payload, as comm/collective.h has it
  double count = 1;
  // A weight that is gathered, or its gradient that is reduced, which nothing
  // in this layer waits for.
  bool of_weight = false;
  // The gradient of what a product reads, which that of its weight does not
  // wait for.
  bool of_input = false;
  NodeId node;  // that it serves: its view names the axes
};

// One direction of one part of the model.
struct PassTime {
  PricedTime products;
  PricedTime attention;
  PricedTime memory;
  double kernels = 0;  // that are started
  std::vector<SentPart> sends;
};

struct SegmentTime {
  PassTime forward;
  PassTime again;  // what is computed again before backward
  PassTime backward;
  // Model FLOPs of the forward pass over all devices: products, with causal
  // attention halved and each token at so many experts as it goes to.
  double flops = 0;
  // Gradients of weights that devices hold as copies, whole on each: payload
  // and axes over which they are summed once per step. Not of what is gathered.
  std::vector<SentPart> gradients;
};

struct PassPricing {
  const ProgramView& view;
  const SegmentOptions& options;
  const Remat& remat;
  const HardwareProfile& card;
  Precision precision = Precision::BF16;  // of products
  // Element-by-element operations run within one another, and norms.
  bool fuses = false;
  LossCopies loss;                  // of logits
  std::string_view attention = {};  // its kernel; "": the best that is measured
  double attention_upper = 1;       // times the upper end, where none is known
  // Who shares the work of every kernel: what each of them takes at least, by
  // the estimate.
  SharedWork shared = {};
};

// Per segment of the view (activations/segments.h). Empty, with the reason in
// `why`, where the profile states no rate in a precision of the products, or
// none of memory.
std::vector<SegmentTime> price_pass(const PassPricing& pricing, Keeping way,
                                    std::string& why);

}  // namespace shardplan
