// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_name.h"

#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

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
      {"layers/moe_block/wi_1", true, std::nullopt},
      {"layers/mlp/routed_experts/wo", true, std::nullopt},
      {"layers/mlp/moe_block/MoeBlock_0/wo", true, std::nullopt},
      // MaxText's routers and shared experts.
      {"layers/MoeBlock_0/gate/kernel", false, std::nullopt},
      {"layers/mlp/moe_block/MoeBlock_0/gate/kernel", false, std::nullopt},
      {"layers/moe_block/gate/kernel", false, std::nullopt},
      {"layers/mlp/routed_experts/gate/kernel", false, std::nullopt},
      {"layers/mlp/moe_block/shared_experts/wi_0/kernel", false, std::nullopt},
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

using testing::manifest;

TEST_CASE("a stack is a name for layers that no number follows") {
  CHECK(stack_of("params/decoder/layers/mlp/wi/kernel") ==
        "params/decoder/layers");
  CHECK(stack_of("layers.mlp.w") == "layers");
  CHECK(stack_of("decoder/moe_layers/mlp/w") == "decoder/moe_layers");
  CHECK(stack_of("h/attn/w") == "h");
  CHECK(stack_of("model.layers.0.mlp.w").empty());
  CHECK(stack_of("model.layers.12.mlp.blocks.w").empty());
  CHECK(stack_of("model.layers_0.mlp.w").empty());
  CHECK(stack_of("model.norm.weight").empty());
  CHECK(stack_of("layers").empty());
  CHECK(stack_of("").empty());
}

StackEvidence evidence(const std::vector<std::string>& types) {
  Manifest model;
  for (size_t i = 0; i < types.size(); ++i) {
    REQUIRE(model.add("layers/w" + std::string(i, 'x'), testing::type(types[i]),
                      {}));
  }
  return layout_hints(model).stacks.at("layers");
}

std::string stack_text(const std::vector<std::string>& types,
                       std::optional<int64_t> layers = std::nullopt) {
  const auto stack = stacked_layers(evidence(types), layers);
  if (!stack) return "";
  return std::to_string(stack->layers) + " along " + std::to_string(stack->dim);
}

TEST_CASE("layers are known by what all tensors of a stack have in common") {
  CHECK(stack_text({"f32[4, 8]", "f32[4, 8, 16]", "f32[4, 16, 8]"}) ==
        "4 along 0");
  CHECK(stack_text({"f32[8, 4]", "f32[8, 4, 16]", "f32[16, 4, 8]"}) ==
        "4 along 1");
  // Too few, of one rank, or with a vector: separate layers may look so.
  CHECK(stack_text({"f32[4, 8]", "f32[4, 8, 16]"}).empty());
  CHECK(stack_text({"f32[4, 8]", "f32[4, 16]", "f32[4, 32]"}).empty());
  CHECK(stack_text({"f32[4]", "f32[4, 8]", "f32[4, 8, 16]"}).empty());
  // One differs.
  CHECK(stack_text({"f32[4, 8]", "f32[4, 8, 16]", "f32[5, 16, 8]"}).empty());
  // Either may be the stack.
  CHECK(stack_text({"f32[4, 8]", "f32[4, 8, 16]", "f32[4, 8, 32]"}).empty());
}

TEST_CASE("the number of layers that the facts give is enough by itself") {
  CHECK(stack_text({"f32[4, 8, 16]"}, 4) == "4 along 0");
  CHECK(stack_text({"f32[8, 4, 16]"}, 4) == "4 along 1");
  CHECK(stack_text({"f32[4]"}, 4) == "4 along 0");
  CHECK(stack_text({"f32[4, 4, 16]"}, 4).empty());
  CHECK(stack_text({"f32[3, 5]"}, 4).empty());
  CHECK(stack_text({"f32[]"}, 4).empty());
  CHECK(stack_text({"f32[1, 5]"}, 1).empty());
  CHECK(stack_text({"f32[4, 8]", "f32[4, 8, 16]", "f32[4, 8, 32]"}, 8) ==
        "8 along 1");
}

TEST_CASE("down projections tell what their siblings give") {
  const LayoutHints hints =
      layout_hints(manifest({{"layers.0.mlp.down_proj.weight", "f32[8, 32]"},
                             {"layers.1.mlp.down_proj.weight", "f32[8, 64]"},
                             {"layers/2/mlp/down_proj/kernel", "f32[16, 8]"},
                             {"layers.0.mlp.down_proj.bias", "f32[8]"},
                             {"mlp.experts.down_proj", "f32[4, 32, 8]"},
                             {"mlp.experts.3.down_proj.weight", "f32[8, 2]"}}));
  CHECK(hints.down_inputs.at("down_proj") == std::set<int64_t>{2, 16, 32, 64});
  CHECK(hints.expert_downs == std::set<std::pair<int64_t, int64_t>>{{32, 8}});
  CHECK(!hints.alternating_experts);
  CHECK(down_module("gate_up_proj") == "down_proj");
  CHECK(down_module("up_proj").empty());
}

// "0", or "" where there is none.
std::string dim_of(const char* name, const char* type,
                   std::optional<int64_t> vocab = std::nullopt) {
  Facts facts;
  facts.vocab = vocab;
  const auto dim = vocab_dim(name, testing::type(type), facts);
  return dim ? std::to_string(*dim) : "";
}

TEST_CASE("embeddings and heads have the vocabulary where their layout says") {
  CHECK(dim_of("model.embed_tokens.weight", "bf16[1000, 64]") == "0");
  CHECK(dim_of("model/embed_tokens/embedding", "bf16[1000, 64]") == "0");
  CHECK(dim_of("wte.weight", "bf16[1000, 64]") == "0");
  CHECK(dim_of("transformer.word_embeddings.weight", "f16[1000, 64]") == "0");
  CHECK(dim_of("lm_head.weight", "bf16[1000, 64]") == "0");
  CHECK(dim_of("lm_head/kernel", "bf16[64, 1000]") == "1");
  CHECK(dim_of("token_embd.weight", "q6_k[1000, 256]") == "0");
  CHECK(dim_of("lm_head.bias", "bf16[1000]") == "0");
  CHECK(dim_of("layers.61.shared_head.head.weight", "bf16[1000, 64]") == "0");
}

TEST_CASE("the size that the facts give decides") {
  CHECK(dim_of("output.weight", "bf16[1000, 64]", 1000) == "0");
  CHECK(dim_of("decoder/logits_dense/kernel", "bf16[64, 1000]", 1000) == "1");
  CHECK(dim_of("lm_head.weight", "bf16[1000, 64]", 999).empty());
  CHECK(dim_of("lm_head/kernel", "bf16[64, 64]", 64) == "1");
}

TEST_CASE("nothing else has a vocabulary") {
  CHECK(dim_of("wpe.weight", "bf16[1000, 64]").empty());
  CHECK(dim_of("attention.output.weight", "bf16[1000, 64]").empty());
  CHECK(dim_of("vision.embed_tokens.weight", "bf16[1000, 64]").empty());
  CHECK(dim_of("model.layers.0.mlp.up_proj.weight", "bf16[1000, 64]", 1000)
            .empty());
  CHECK(dim_of("lm_head.weight", "bf16[]").empty());
  CHECK(dim_of("lm_head.weight", "bf16[2, 3, 4]").empty());
}

TEST_CASE("a table and a head are recognised by their names") {
  CHECK(vocab_use("model.embed_tokens.weight") == VocabUse::Table);
  CHECK(vocab_use("model/embed_tokens/embedding") == VocabUse::Table);
  CHECK(vocab_use("lm_head/kernel") == VocabUse::Head);
  CHECK(vocab_use("model/layers/0/mlp/up_proj/kernel") == std::nullopt);
}

}  // namespace

}  // namespace shardplan
