// SPDX-License-Identifier: Apache-2.0
// PassTime: how long the parts of one forward and backward pass take on a
// device, and what they send, for one micro-batch.
//
// A program's instructions are priced one by one: products by shape, attention
// as a kernel if it is one, everything else by the bytes that it reads and
// writes. The SavingMode (activations/saved_values.h) decides what runs as one
// kernel: operation by operation, with kernels for norms and attention, or with
// element-by-element operations fused.
//
// Backward follows from the graph: a product has a product for each operand
// that has a gradient. A gradient is a partial sum over the axes along which
// readers of a value were sharded and the value itself was not; it is summed
// there, by an all-reduce, or by a reduce-scatter if the value had been
// gathered. What is recomputed runs before the backward of its layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "activations/options.h"
#include "activations/remat.h"
#include "activations/saved_values.h"
#include "comm/collective.h"
#include "core/hardware.h"
#include "cost/kernels.h"
#include "spmd/program.h"

namespace shardplan {

// A card whose matrix units are busy for seconds on end lowers its clock to
// stay within its power, while tables come from short runs. Prefills of Llama
// 3.1 8B on an H100 reach 0.82 to 0.88 of what its products alone do.
inline constexpr double kWarmProducts = 1.1;

// A collective that an instruction or its backward runs.
struct SentPart {
  CollectiveKind kind = CollectiveKind::AllReduce;
  AxisNames axes = {};  // in the program's mesh, major to minor
  double bytes = 0;     // payload, as comm/collective.h defines it
  double count = 1;
  // The collective gathers a weight, or reduces its gradient, and nothing in
  // this layer waits for it.
  bool of_weight = false;
  // The collective sums the gradient of a product's input, and the gradient of
  // the product's weight does not wait for it.
  bool of_input = false;
  NodeId node = {};  // the node that it serves, whose view names the axes
};

// One direction of one part of the model.
struct PassTime {
  PricedTime products;
  PricedTime attention;
  PricedTime memory;
  double kernels = 0;  // how many are started
  std::vector<SentPart> sends;
};

struct SegmentTime {
  PassTime forward;
  PassTime recompute;  // recomputed before backward
  PassTime backward;
  // Model FLOPs of the forward pass over all devices: products, with causal
  // attention halved and each token at as many experts as it chooses.
  double flops = 0;
  // Gradients of weights that devices hold as whole copies: payload, and axes
  // over which they are summed once per step. Gathered weights are not
  // included.
  std::vector<SentPart> gradients;
};

struct PassPricing {
  const ProgramView& view;
  const SegmentOptions& options;
  const Remat& remat;
  const HardwareProfile& card;
  Precision precision = Precision::BF16;  // for products
  // Element-by-element operations and norms are fused with one another.
  bool fuses = false;
  LossCopies loss;                  // copies of logits
  std::string_view attention = {};  // its kernel; "": the best that is measured
  double attention_upper = 1;       // upper end's factor, for unknown kernels
  // Devices that share the work of every kernel. Times are then the least that
  // each of them needs, by the estimate.
  SharedWork shared = {};
};

// Returns one entry per segment of the view (activations/segments.h). Empty,
// with the reason in `why`, if the profile states no rate in a precision of the
// products, or no rate of memory.
std::vector<SegmentTime> price_pass(const PassPricing& pricing, SavingMode mode,
                                    std::string& why);

}  // namespace shardplan
