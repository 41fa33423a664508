// SPDX-License-Identifier: Apache-2.0
// Token weights: the weights that tokens pass through, layer by layer, with the
// names of their dimensions. This is what shapes show of a model whose forward
// pass is not known (activations/shapes.h).
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

// Names of dimensions (core/manifest.h, DimKind::label).
inline constexpr std::string_view kHeadsDim = "heads";
inline constexpr std::string_view kKvHeadsDim = "kv_heads";
inline constexpr std::string_view kVocabDim = "vocab";

// A dimension along which a token has numbers.
struct Width {
  std::vector<std::pair<std::string_view, int64_t>> labels;  // with their sizes
  int64_t size = 0;
  AxisNames axes;
  bool hidden = false;
};

// A weight that tokens pass through, listed once for every layer that has it.
struct TokenWeight {
  std::string_view name;
  std::vector<Width> widths;  // [out, in] or [in, out]; a vector has one
  AxisNames expert_axes;
  // Its own elements on a device, if it is gathered for use; else 0.
  Int128 gathered = 0;
  bool routed = false;
  bool embeds = false;  // rows are looked up
  bool is_norm = false;
  bool vocab = false;
};

// Layers under one name, such as "model.layers.".
struct TokenStack {
  size_t number = 0;  // the index in NumberedLayers
  std::map<int64_t, std::vector<TokenWeight>> layers;
  bool encodes = false;  // the encoder of a pair; `decodes`: its decoder
  bool decodes = false;
};

// The names are views of the manifest's, which must outlive this.
struct TokenWeights {
  std::vector<TokenStack> stacks;  // an encoder comes first
  std::vector<TokenWeight> outside;
  int64_t hidden = 0;  // the width of the residual stream
  // The model is an encoder and a decoder.
  bool pair = false;
  // Positions are added to scores, so no kernel avoids holding these.
  bool holds_scores = false;
  std::vector<int64_t> layer_of;  // per parameter; -1: outside layers
  // Parameters that do not process text: "154 parameters of `model.visual`".
  std::vector<std::string> left_out;
  // Why shapes are not enough; if set, nothing else is valid.
  std::string unknown;
};

// Reads the weights. `gathered`: axes over which weights are gathered before
// use. `routes`: whether the number of experts per token is known.
TokenWeights token_weights(const Manifest& manifest, const Plan& plan,
                           const AxisNames& gathered, bool routes);

}  // namespace shardplan
