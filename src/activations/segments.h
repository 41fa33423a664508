// SPDX-License-Identifier: Apache-2.0
// What the parts of one forward and backward pass hold on a device: what stays
// from forward to backward, and what is alive in between.
//
// A segment is a layer, or what stands before, between and behind layers. A
// value belongs to the segment that computes it. Liveness is that of the
// program's order of operations and of its reverse: a value is there from where
// it is made to where it is read last; a gradient from where the last reader
// of a value gives it to where that value's own operation has used it.
// Gradients of weights are state (memory/state.h), but for those that are whole
// for a moment, since their weight was gathered. Weights that are frozen have
// none, and below the first that is trained there are no gradients at all.
//
// Bytes are of one device and one micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "activations/kept.h"
#include "activations/options.h"
#include "activations/remat.h"
#include "base/checked.h"
#include "spmd/program.h"

namespace shardplan {

struct SegmentMemory {
  // From forward to backward, of what this segment makes; of that, what is in
  // host memory is not in `saved`.
  Int128 saved = 0;
  Int128 offloaded = 0;
  // The part of `saved` that products read; all of it with rematerialisation.
  Int128 sliced = 0;
  // Alive at most, beside what earlier segments saved.
  Int128 forward = 0;
  Int128 backward = 0;
  // The part of both that logits are, and what a loss makes of them.
  Int128 loss = 0;
  // Gradients of what later segments read of it.
  Int128 handed_on = 0;
  // What earlier segments hand in that comes of weights: what a stage of a
  // pipeline that begins here receives.
  Int128 input = 0;
  // What is saved, and what is alive at that moment of backward, by value with
  // layers folded; logits and what a loss makes of them are kLogits.
  std::map<std::string, Int128> saved_by;
  std::map<std::string, Int128> backward_by;
};
inline constexpr std::string_view kLogits = "logits";

// A segment has an answer each; they are the ways of keeping, unless the step
// is known to run operation by operation.
struct Segment {
  std::string label;  // "layers.3"; "before layers", "behind layers"
  bool is_layer = false;
  // Of attention, where they are held: the most of one softmax, in the dtype of
  // activations.
  Int128 scores = 0;
  // Numbers of the weights that torch.autocast casts for products.
  Int128 cast_weights = 0;
  // Outside of layers, the largest weight that it reads: numbers on a device,
  // as it is stored, and whether it is trained.
  ValueId weight;
  Int128 weight_numbers = 0;
  bool trains_weight = false;
  std::array<SegmentMemory, kKeepings> memory;
};

// Of logits, and of what a loss makes of them, in as many parts as asked for.
Int128 loss_bytes(const SegmentOptions& options, Int128 elements,
                  size_t keeping);

// Bytes of so many copies of a segment's logits.
Int128 logits_as(const Segment& segment, SegmentOptions options,
                 LossCopies copies);

// In the order of the program. With `remat`, which then applies to all layers.
std::vector<Segment> segments_of(const Program& program,
                                 const SegmentOptions& options,
                                 const Remat& remat);

// The least that a policy keeps is no more than the least without one: where
// its values are gathered from parts, these may be kept in their place.
// REQUIRES: segments of one program.
void bound_least(std::vector<Segment>& repeated,
                 const std::vector<Segment>& plain);

}  // namespace shardplan
