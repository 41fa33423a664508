// SPDX-License-Identifier: Apache-2.0
// The weights that tokens go through, layer by layer, with what their
// dimensions are called: what shapes tell of a model whose forward pass is not
// known (activations/shapes.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"

namespace shardplan {

// What dimensions are called (core/manifest.h, DimKind::label).
inline constexpr std::string_view kHeadsDim = "heads";
inline constexpr std::string_view kKvHeadsDim = "kv_heads";
inline constexpr std::string_view kVocabDim = "vocab";

// A dimension that a token has numbers along.
struct Width {
  std::vector<std::pair<std::string_view, int64_t>> labels;  // and their sizes
  int64_t size = 0;
  AxisNames axes;
  bool hidden = false;
};

// A weight that tokens go through, as often as layers have it.
struct TokenWeight {
  std::string_view name;
  std::vector<Width> widths;  // [out, in] or [in, out]; one: of a vector
  AxisNames expert_axes;
  // Its own numbers, on a device, where it is gathered for use; else 0.
  Int128 gathered = 0;
  bool routed = false;
  bool embeds = false;  // rows are looked up
  bool is_norm = false;
  bool vocab = false;
};

// Layers under one name: "model.layers.".
struct TokenStack {
  std::string prefix;
  std::map<int64_t, std::vector<TokenWeight>> layers;
  bool encodes = false;  // of an encoder beside a decoder, and the other one
  bool decodes = false;
};

// Names are views of the manifest's, which must outlive it.
struct TokenWeights {
  std::vector<TokenStack> stacks;  // an encoder first
  std::vector<TokenWeight> outside;
  int64_t hidden = 0;  // the width of the residual stream
  // An encoder and a decoder.
  bool pair = false;
  // Positions are added to scores: no kernel spares these.
  bool holds_scores = false;
  std::vector<int64_t> layer_of;  // per parameter; -1: outside of layers
  // Beside layers of text: "154 parameters of `model.visual`".
  std::vector<std::string> left_out;
  // Why shapes do not tell; nothing else holds then.
  std::string unknown;
};

// `gathered`: axes over which weights are gathered before use. `routes`:
// whether it is known how many experts a token goes to.
TokenWeights token_weights(const Manifest& manifest, const Plan& plan,
                           const AxisNames& gathered, bool routes);

}  // namespace shardplan
