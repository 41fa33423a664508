// SPDX-License-Identifier: Apache-2.0
// What nearly all decoders share: their sizes, attention of separate q, k, v
// and o projections, a gated MLP, an embedding and a head that may be tied.
#pragma once

#include <cstdint>
#include <string>

#include "io/hf_config/model_type.h"

namespace shardplan {

struct Decoder {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;
  bool tied = false;  // the head is the embedding and not stored

  int64_t query_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
};

// Reads all but kv_heads and head_dim, which not every model type has.
// `vocab` is for model types whose configs may leave the vocabulary out.
Decoder read_sizes(const HfModelType& row, ConfigReader& config,
                   const Fallback& vocab = {});
// Reads them all; sizes that contradict one another are SP009.
Decoder read_decoder(const HfModelType& row, ConfigReader& config,
                     const Fallback& vocab = {});

struct AttentionBias {
  bool input = false;   // q, k and v
  bool output = false;  // o
};

// "model.layers.12."
std::string layer_name(int64_t layer, const std::string& root = "model.");

// `at` is the module with its dot: "model.layers.12.self_attn.".
void write_attention(const std::string& at, const Decoder& decoder,
                     AttentionBias bias, TensorWriter& out);
// gate_proj, up_proj and down_proj.
void write_mlp(const std::string& at, int64_t hidden, int64_t intermediate,
               bool bias, TensorWriter& out);
// `lm_head`, unless tied.
void write_head(const Decoder& decoder, const std::string& root,
                TensorWriter& out);

}  // namespace shardplan
