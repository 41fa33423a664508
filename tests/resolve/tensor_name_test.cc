// SPDX-License-Identifier: Apache-2.0
#include "resolve/tensor_name.h"

#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("a name ends in parent, module and leaf") {
  struct Row {
    std::string_view name, parent, module, leaf;
  };
  constexpr Row kRows[] = {
      {"model.layers.0.self_attn.q_proj.weight", "self_attn", "q_proj",
       "weight"},
      {"model/layers/0/self_attn/q_proj/kernel", "self_attn", "q_proj",
       "kernel"},
      {"model.layers/0.mlp/experts.gate_up_proj", "experts", "gate_up_proj",
       "gate_up_proj"},
      {"self_attn.sinks", "self_attn", "sinks", "sinks"},
      {"weight", "", "", "weight"},
      {"a.weight", "", "a", "weight"},
      {"", "", "", ""},
      {".", "", "", ""},
      {"norm/scale", "", "norm", "scale"},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    const TensorName name = split_name(row.name);
    CHECK(name.parent == row.parent);
    CHECK(name.module == row.module);
    CHECK(name.leaf == row.leaf);
  }
}

TEST_CASE("a role needs an attention block and an exact spelling") {
  struct Row {
    std::string_view name;
    std::optional<Role> role;
  };
  constexpr Row kRows[] = {
      {"h.0.attn.c_proj.weight", Role::ConvOutput},
      {"layers.0.attention.wq.weight", Role::Query},
      {"decoder/layers/self_attention/key/kernel", Role::Key},
      {"decoder/layers/self_attention_local/value/kernel", Role::Value},
      {"decoder/layers/self_attention/out/kernel", Role::Output},
      {"model.layers.0.self_attn.kv_b_proj.weight", Role::LatentUp},
      // Other blocks have a wo, an out and a c_proj too.
      {"decoder/layers/mlp/wo/kernel", std::nullopt},
      {"h.0.mlp.c_proj.weight", std::nullopt},
      {"model.layers.0.linear_attn.out_proj.weight", std::nullopt},
      // Fused projections hold several kinds of heads.
      {"model.layers.0.self_attn.qkv_proj.weight", std::nullopt},
      {"h.0.attn.c_attn.weight", std::nullopt},
      // Low-rank adapters of a projection are not the projection.
      {"self_attn.q_proj.lora_A.weight", std::nullopt},
      {"q_proj.weight", std::nullopt},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    CHECK(role_of(split_name(row.name)) == row.role);
  }
}

TEST_CASE("the leaf tells which way round a tensor is stored") {
  CHECK(tensor_kind(split_name("q_proj.weight")) == TensorKind::Weight);
  CHECK(tensor_kind(split_name("q_proj/kernel")) == TensorKind::Kernel);
  CHECK(tensor_kind(split_name("q_proj/bias")) == TensorKind::Bias);
  CHECK(tensor_kind(split_name("q_proj.weight_scale_inv")) == std::nullopt);
  CHECK(tensor_kind(split_name("norm/scale")) == std::nullopt);
}

TEST_CASE("llama.cpp puts attention into a tensor's own name") {
  const auto role = [](std::string_view name) {
    return role_of(split_name(name));
  };
  CHECK(role("blk.7.attn_q.weight") == Role::Query);
  CHECK(role("blk.7.attn_k.bias") == Role::Key);
  CHECK(role("blk.7.attn_v.weight") == Role::Value);
  CHECK(role("blk.7.attn_output.weight") == Role::Output);
  CHECK(role("blk.7.attn_kv_b.weight") == Role::LatentUp);
  CHECK_FALSE(role("blk.7.attn_norm.weight"));
  CHECK_FALSE(role("blk.7.ffn_up.weight"));
  CHECK_FALSE(role("layers.attn_q.weight"));
  CHECK_FALSE(role("attn_q.weight"));
  CHECK(in_attention(split_name("blk.7.attn_norm.weight")));
  CHECK(in_attention(split_name("layers.0.self_attn.q_proj.weight")));
  CHECK_FALSE(in_attention(split_name("blk.7.ffn_up.weight")));
}

TEST_CASE("towers beside the language model are recognised") {
  CHECK(
      in_other_tower("vision_tower.encoder.layers.0.self_attn.q_proj.weight"));
  CHECK(in_other_tower("model/visual/blocks/0/attn/proj/kernel"));
  CHECK_FALSE(
      in_other_tower("language_model.model.layers.0.mlp.up_proj.weight"));
}

TEST_CASE("experts are stacked, numbered, or not meant at all") {
  struct Row {
    std::string_view name;
    bool stacked;
    std::optional<int64_t> number;
  };
  constexpr Row kRows[] = {
      {"layers.0.mlp.experts.gate_up_proj_blocks", true, std::nullopt},
      {"layers/0/mlp/experts/down_proj/kernel", true, std::nullopt},
      {"layers/MoeBlock_0/wi_0", true, std::nullopt},
      {"layers.0.block_sparse_moe.experts.7.w1.weight", false, 7},
      {"layers.0.mlp.experts.0255.up_proj.weight", false, 255},
      {"layers.0.mlp.shared_experts.up_proj.weight", false, std::nullopt},
      {"layers.0.mlp.up_proj.weight", false, std::nullopt},
      {"blk.0.ffn_gate_exps.weight", true, std::nullopt},
      {"blk.0.ffn_gate_shexp.weight", false, std::nullopt},
      // A number all the same, though none that fits.
      {"mlp.experts.99999999999999999999.w1.weight", false, std::nullopt},
      {"mlp.experts.-1.w1.weight", true, std::nullopt},
      {"experts", false, std::nullopt},
      {"", false, std::nullopt},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.name);
    const ExpertName expert = expert_name(row.name);
    CHECK(expert.stacked == row.stacked);
    CHECK(expert.number == row.number);
  }
}

}  // namespace
}  // namespace shardplan
