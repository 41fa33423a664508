// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "io/formats/formats.h"

namespace shardplan {
namespace {

TEST_CASE("a buffer is told by its name and its shape together") {
  struct Row {
    const char* name;
    TensorType type;
    bool buffer;
  };
  const Row rows[] = {
      {"h.0.attn.bias", {DType::F32, {1, 1, 1024, 1024}}, true},
      {"transformer.h.3.attn.bias", {DType::U8, {1, 1, 16, 16}}, true},
      {"transformer.h.3.attn.attention.bias",
       {DType::Bool, {1, 1, 16, 16}},
       true},
      {"gpt_neox.layers.1.attention.bias", {DType::Bool, {1, 1, 8, 8}}, true},
      {"attn/bias", {DType::F32, {1, 1, 8, 8}}, true},
      {"h.0.attn.bias", {DType::F32, {2304}}, false},
      {"h.0.attn.bias", {DType::F32, {1, 1, 8, 16}}, false},
      {"h.0.attn.bias", {DType::F32, {2, 1, 8, 8}}, false},
      {"h.0.attn.c_attn.bias", {DType::F32, {1, 1, 8, 8}}, false},
      {"bias", {DType::F32, {1, 1, 8, 8}}, false},
      {"h.0.attn.masked_bias", {DType::F32, {}}, true},
      {"h.0.attn.masked_bias", {DType::F32, {1}}, true},
      {"h.0.attn.masked_bias", {DType::F32, {8}}, false},
      {"layers.0.self_attn.rotary_emb.inv_freq", {DType::F32, {64}}, true},
      {"layers.0.self_attn.rotary_emb.inv_freq", {DType::F32, {4, 4}}, false},
      {"layers.0.self_attn.rotary_emb.inv_freq", {DType::I64, {64}}, false},
      {"layers.3.mlp.gate.e_score_correction_bias", {DType::F32, {256}}, true},
      {"layers.3.mlp.gate.e_score_correction_bias",
       {DType::F32, {256, 2}},
       false},
      {"layers.3.mlp.gate.bias", {DType::F32, {256}}, false},
      {"layers.0.mlp.up_proj.weight_scale_inv", {DType::F32, {144, 56}}, true},
      {"layers.0.mlp.up_proj.weight_scale_inv", {DType::BF16, {1, 1}}, true},
      {"layers.0.mlp.up_proj.weight_scale_inv", {DType::F32, {}}, false},
      {"layers.0.mlp.up_proj.weight_scale", {DType::BF16, {64, 1}}, true},
      {"layers.0.mlp.up_proj.weight_scale", {DType::F32, {}}, true},
      {"layers.0.mlp.up_proj.weight_scale", {DType::U8, {64, 4}}, false},
      {"layers.0.mlp.up_proj.input_scale", {DType::F32, {}}, true},
      {"layers.0.mlp.up_proj.input_scale", {DType::F32, {2, 2, 2}}, false},
      {"layers.0.mlp.experts.gate_up_proj_scales",
       {DType::U8, {32, 5760, 90}},
       false},
      {"layers.0.norm.scale", {DType::F32, {64}}, false},
      {"layers.0.mlp.up_proj.weight", {DType::F32, {1, 1, 8, 8}}, false},
      {"rope_freqs.weight", {DType::F32, {64}}, true},
      {"rope_factors_long.weight", {DType::F32, {64}}, true},
      {"rope_freqs.bias", {DType::F32, {64}}, false},
      {"blk.3.exp_probs_b.bias", {DType::F32, {256}}, true},
      {"blk.3.exp_probs_b.weight", {DType::F32, {256}}, false},
      {"", {DType::F32, {}}, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(shape_text(row.type.shape));
    CHECK(is_known_buffer(row.name, row.type) == row.buffer);
  }
}

}  // namespace
}  // namespace shardplan
