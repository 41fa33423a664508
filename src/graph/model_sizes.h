// SPDX-License-Identifier: Apache-2.0
// The sizes of a model, wherever they are said: its config, the facts of its
// manifest, the shapes of its parameters, and what the family's configuration
// class in transformers takes where a config is silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/model_config.h"
#include "graph/family.h"

namespace shardplan {

// A parameter with a size in one of its dimensions; of several names the first
// that the checkpoint has.
struct SizeSource {
  std::vector<std::string_view> names;  // for layer 0
  // The rows of a matrix [out, in], counted from the major end; its columns
  // where the matrix is [in, out]. Else that dimension, from the minor end.
  enum class Where : uint8_t { Outputs, Last, First } where = Where::Outputs;
  int64_t parts = 1;  // the size is a dimension over so many
};

// A model with more layers is refused: a graph has nodes for each.
inline constexpr int64_t kMaxModelLayers = 10'000;

// What is known of a family.
struct FamilySizes {
  std::string_view family;
  std::string_view layers;  // the prefix of layers: "layers"
  SizeSource vocab;
  SizeSource hidden;
  SizeSource queries;  // heads * head_dim; none: they are as wide as hidden
  SizeSource keys;     // kv_heads * head_dim; none: as queries
  SizeSource head_dim;
  SizeSource intermediate;
  SizeSource experts;
  SizeSource expert_intermediate;
  SizeSource positions;
  SizeSource token_types;

  double norm_epsilon = 1e-6;
  std::string_view activation = "silu";
  double rope_theta = 10'000;  // 0: positions are not rotated
  bool tied = false;
  int64_t experts_per_token = 0;  // 0: no experts
  bool normalise_top_k = true;
};

// `input.config` with everything that the family needs. Heads that nobody
// tells are SP013, as is what was assumed because there is no config, there a
// note. Sizes that cannot be are SP009.
std::optional<ModelConfig> complete_config(const FamilyInput& input,
                                           const FamilySizes& sizes,
                                           Diagnostics& diags);

// How many layers of a complete config the pass runs.
int64_t layers_run(const ForwardPass& pass, const ModelConfig& config);

}  // namespace shardplan
