// SPDX-License-Identifier: Apache-2.0
// Layout hints: what only all tensors of a model together tell about how one of
// them is laid out.
//
// `dense_h_to_4h` of [27392, 4096] is packed gate and up where its sibling
// `dense_4h_to_h` takes 13,696 columns, and a plain projection where it takes
// 27,392. `layers/mlp/up_proj/kernel` of [24, 64, 256] is a stack of 24 layers
// where every tensor below `layers` starts with 24.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/fold.h"
#include "core/manifest.h"
#include "resolve/quant_scales.h"

namespace shardplan {

// Sizes of all tensors below one name for layers (`decoder/layers`), without
// numbers.
struct StackEvidence {
  int64_t tensors = 0;
  size_t least_rank = SIZE_MAX;
  size_t most_rank = 0;
  // The size that all have in their first and in their second dimension; empty
  // once two differ.
  std::optional<int64_t> first, second;
};

struct LayoutHints {
  // Experts' gate and up alternate (gpt-oss: only there they have biases).
  bool alternating_experts = false;
  // What the down projections take: their rank-2 input sizes, by module.
  std::map<std::string, std::set<int64_t>, std::less<>> down_inputs;
  // The last two dimensions of stacked experts' down projections.
  std::set<std::pair<int64_t, int64_t>> expert_downs;
  std::map<std::string, StackEvidence, std::less<>> stacks;
  QuantBlocksByName blocks;  // where scales tell them
};

// O(classes), but where a stack has a number in front (`towers.0.layers`).
// REQUIRES: parameters of one class are of one type.
LayoutHints layout_hints(const Manifest& manifest, const Folding& folding);
// The same where nothing is folded yet. O(parameters).
LayoutHints layout_hints(const Manifest& manifest);

// The name for layers that a tensor lies below, where no number follows:
// `decoder/layers` of `decoder/layers/mlp/wi/kernel`, empty for
// `model.layers.0.mlp.up_proj.weight`.
std::string_view stack_of(std::string_view name);

// The dimension along which the layers of a stack are stacked, and their
// number; empty when it cannot be told. `layers` is the number that the facts
// give.
struct StackedLayers {
  size_t dim = 0;
  int64_t layers = 0;
};
std::optional<StackedLayers> stacked_layers(const StackEvidence& stack,
                                            std::optional<int64_t> layers);

// The sibling that takes what a module of this name gives: `down_proj` of
// `gate_up_proj`; empty for other modules.
std::string_view down_module(std::string_view up_module);

}  // namespace shardplan
