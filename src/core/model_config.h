// SPDX-License-Identifier: Apache-2.0
// ModelConfig: what a forward pass needs beside names and shapes.
//
// Read from a config.json (io/model_config.h). Absent is what the file does not
// say: a family knows what its configuration class takes then, or derives it
// from the shapes of parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/source.h"

namespace shardplan {

// How positions are rotated (transformers' modeling_rope_utils.py).
struct RopeConfig {
  std::optional<double> theta;    // rope_theta
  std::string scaling;            // "", "linear", "llama3", ..
  double factor = 1;              // of linear and llama3
  double low_freq_factor = 1;     // llama3
  double high_freq_factor = 4;    // llama3
  int64_t original_positions = 0;  // llama3: original_max_position_embeddings
  std::optional<double> partial;  // partial_rotary_factor
};

struct ModelConfig {
  std::string model_type;  // "" where nothing says so
  std::string architecture;
  std::optional<int64_t> hidden;
  std::optional<int64_t> intermediate;
  std::optional<int64_t> layers;
  std::optional<int64_t> heads;
  std::optional<int64_t> kv_heads;
  std::optional<int64_t> head_dim;
  std::optional<int64_t> vocab;
  std::optional<int64_t> max_positions;
  std::optional<int64_t> token_types;  // type_vocab_size

  std::optional<int64_t> experts;
  std::optional<int64_t> experts_per_token;
  std::optional<int64_t> expert_intermediate;  // moe_intermediate_size
  std::optional<bool> normalise_top_k;         // norm_topk_prob
  std::optional<int64_t> sparse_step;          // decoder_sparse_step
  std::vector<int64_t> dense_layers;           // mlp_only_layers

  std::optional<double> norm_epsilon;  // rms_norm_eps, layer_norm_epsilon, ..
  std::string activation;              // hidden_act, activation_function
  std::optional<bool> tied;            // tie_word_embeddings
  RopeConfig rope;
  // Per layer: tokens that attention reaches back, 0 for all; as in
  // ModelFacts. Empty: every layer sees all.
  std::vector<int64_t> windows;

  // The file, for messages; null without one.
  Span where;
};

}  // namespace shardplan
