// SPDX-License-Identifier: Apache-2.0
// Experts that are stored one by one, as stacks: what a step multiplies with.
//
// Checkpoints of hundreds of experts have a matrix for each. A graph of stacks
// has as many operations as one of a single expert, where one of experts one by
// one has tens of thousands, and is partitioned anew for each change that is
// tried. What a moment holds is still that of one expert
// (SegmentOptions::experts_apart), so that both give the same bracket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/manifest.h"
#include "core/plan.h"

namespace shardplan {

struct StackedExperts {
  // "layers.0.mlp.experts.up_proj.weight" [experts, ..] in place of
  // "layers.0.mlp.experts.0.up_proj.weight" and its siblings; all else as it
  // is.
  Manifest manifest;
  std::vector<bool> frozen;       // per parameter of it; empty: none
  std::vector<uint32_t> part_of;  // per parameter of the model: the one of it
  std::vector<uint32_t> first;    // per parameter of it: the first of its parts
  std::vector<int64_t> experts;   // per parameter of it; 0: it is no stack
};

// From so many alike siblings on a graph of stacks is worth it.
inline constexpr int64_t kFewestStacked = 16;

// Empty where no layer has `fewest` experts, or where experts differ in more
// than their number. `frozen` is per parameter; empty: none.
std::optional<StackedExperts> stacked_experts(const Manifest& manifest,
                                              const std::vector<bool>& frozen,
                                              int64_t fewest = kFewestStacked);

// Each stack is cut as all of its parts are, and over its experts by the axis
// that these are dealt out over, if any. Empty where parts of one stack are
// placed differently.
std::optional<Plan> stacked_plan(const StackedExperts& stacked,
                                 const Plan& plan);

// What is known per parameter of the stacks, per parameter of the model.
std::vector<int64_t> of_parts(const StackedExperts& stacked,
                              const std::vector<int64_t>& of_stacks);

}  // namespace shardplan
