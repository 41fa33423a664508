// SPDX-License-Identifier: Apache-2.0
// StackedExperts: a model whose experts are stored one by one, with each
// layer's experts as stacks. Training steps compute with these stacks.
//
// Checkpoints with hundreds of experts have one matrix per expert. A graph of
// stacks has as many operations as a graph of one expert; a graph of separate
// experts has tens of thousands, and is partitioned again for every change that
// is tried. At any moment, only one expert is still live
// (SegmentOptions::experts_one_by_one), so both graphs give the same bracket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/manifest.h"
#include "core/plan.h"

namespace shardplan {

struct StackedExperts {
  // Has "layers.0.mlp.experts.up_proj.weight" [experts, ..] in place of
  // "layers.0.mlp.experts.0.up_proj.weight" and its siblings; all other
  // parameters are unchanged.
  Manifest manifest;
  std::vector<bool> frozen;       // per parameter of `manifest`; empty: none
  std::vector<uint32_t> part_of;  // per parameter of the model: its index in
                                  // `manifest`
  std::vector<uint32_t> first;    // per parameter of `manifest`: its first part
  std::vector<int64_t> experts;   // per parameter of `manifest`; 0: not a stack
};

// The smallest number of experts for which a graph of stacks pays off.
inline constexpr int64_t kFewestStacked = 16;

// Stacks the experts. Empty if no layer has `fewest` experts, or if experts
// differ in more than their number. `frozen` is per parameter; empty: none is
// frozen.
std::optional<StackedExperts> stacked_experts(const Manifest& manifest,
                                              const std::vector<bool>& frozen,
                                              int64_t fewest = kFewestStacked);

// Shards each stack as all of its parts, and over its experts by the axis that
// places them whole, if any. Empty if parts of one stack are placed
// differently.
std::optional<Plan> stacked_plan(const StackedExperts& stacked,
                                 const Plan& plan);

// Maps values per parameter of the stacks to values per parameter of the model.
std::vector<int64_t> of_parts(const StackedExperts& stacked,
                              const std::vector<int64_t>& of_stacks);

}  // namespace shardplan
