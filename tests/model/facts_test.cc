// SPDX-License-Identifier: Apache-2.0
#include "model/facts.h"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::manifest;
using testing::NamedType;

// "heads 32, kv 8, dim 128, experts 4"; only what is known.
std::string text_of(const Facts& facts) {
  std::string text;
  const auto add = [&](const char* what, const std::optional<int64_t>& value) {
    if (!value) return;
    if (!text.empty()) text += ", ";
    text += std::string(what) + " " + std::to_string(*value);
  };
  add("heads", facts.heads);
  add("kv", facts.kv_heads);
  add("dim", facts.head_dim);
  add("experts", facts.experts);
  add("layers", facts.layers);
  return text;
}

InferredFacts infer_facts(const Manifest& model) {
  return infer_facts(model, fold_by_type(model));
}

std::string inferred(const std::vector<NamedType>& tensors) {
  const InferredFacts result = infer_facts(manifest(tensors));
  const std::string text = text_of(result.facts);
  CHECK((result.facts.from == FactsFrom::Inferred) == !text.empty());
  CHECK(result.why.empty() == text.empty());
  return text;
}

TEST_CASE("norms of queries and keys tell the size of a head") {
  const InferredFacts result = infer_facts(
      manifest({{"model.layers.0.self_attn.q_proj.weight", "bf16[4096, 1024]"},
                {"model.layers.0.self_attn.k_proj.weight", "bf16[1024, 1024]"},
                {"model.layers.0.self_attn.q_norm.weight", "bf16[128]"},
                {"model.layers.0.self_attn.k_norm.weight", "bf16[128]"}}));
  CHECK(text_of(result.facts) == "heads 32, kv 8, dim 128");
  CHECK(result.facts.from == FactsFrom::Inferred);
  CHECK(result.why ==
        std::vector<std::string>{
            "head_dim 128 from the norms of queries and keys",
            "32 heads and 8 KV heads from the rows of the query and key "
            "projections"});
}

TEST_CASE("without anything better the size of a head is guessed aloud") {
  const InferredFacts result = infer_facts(manifest(
      {{"model/layers/0/self_attn/q_proj/kernel", "bf16[4096, 4096]"},
       {"model/layers/0/self_attn/k_proj/kernel", "bf16[4096, 1024]"}}));
  CHECK(text_of(result.facts) == "heads 32, kv 8, dim 128");
  REQUIRE(result.why.size() == 2);
  CHECK(result.why[0] == "head_dim 128 guessed from the hidden size 4096");

  CHECK(inferred({{"self_attn.q_proj.weight", "bf16[2048, 2048]"},
                  {"self_attn.k_proj.weight", "bf16[256, 2048]"}}) ==
        "heads 32, kv 4, dim 64");
}

TEST_CASE("nothing is guessed for toy models") {
  CHECK(inferred({{"self_attn.q_proj.weight", "bf16[64, 64]"},
                  {"self_attn.k_proj.weight", "bf16[64, 64]"}})
            .empty());
}

TEST_CASE("attention sinks count the heads") {
  CHECK(inferred({{"layers.0.self_attn.sinks", "bf16[64]"},
                  {"layers.0.self_attn.q_proj.weight", "bf16[4096, 2880]"},
                  {"layers.0.self_attn.q_proj.bias", "bf16[4096]"},
                  {"layers.0.self_attn.k_proj.weight", "bf16[512, 2880]"}}) ==
        "heads 64, kv 8, dim 64");
}

TEST_CASE("kernels that keep heads apart are exact") {
  CHECK(inferred({{"layers_0/self_attention/query/kernel", "f32[512, 8, 96]"},
                  {"layers_0/self_attention/query/bias", "f32[8, 96]"},
                  {"layers_0/self_attention/key/kernel", "f32[512, 2, 96]"}}) ==
        "heads 8, kv 2, dim 96");
  CHECK(inferred({{"layers/self_attention/query/kernel", "f32[512, 24, 8, 96]"},
                  {"layers/self_attention/key/kernel",
                   "f32[512, 24, 2, 96]"}}) == "heads 8, kv 2, dim 96");
}

TEST_CASE("experts are counted by their stack or their numbers") {
  CHECK(inferred({{"layers.0.mlp.experts.gate_up_proj", "bf16[32, 64, 128]"},
                  {"layers.0.mlp.experts.gate_up_proj_bias",
                   "bf16[32, 128]"}}) == "experts 32");
  CHECK(inferred({{"layers.0.mlp.experts.down_proj_blocks",
                   "u8[16, 64, 2, 16]"}}) == "experts 16");
  CHECK(inferred({{"layers.0.mlp.experts.0.w1.weight", "bf16[8, 8]"},
                  {"layers.0.mlp.experts.11.w1.weight", "bf16[8, 8]"},
                  {"layers.0.mlp.experts.2.w1.weight", "bf16[8, 8]"}}) ==
        "experts 12");
  CHECK(inferred({{"layers.0.mlp.shared_experts.up_proj.weight",
                   "bf16[8, 8]"}}) == "");
  // MaxText's, and its router of scanned layers, which begins with a width.
  CHECK(inferred({{"layers_0/moe_block/wi_0", "bf16[8, 64, 128]"}}) ==
        "experts 8");
  CHECK(inferred({{"layers/MoeBlock_0/gate/kernel", "bf16[64, 4, 8]"},
                  {"layers/MoeBlock_0/wi_0", "bf16[8, 4, 64, 128]"}}) == "");
  // Two stacks of different height: no common number.
  CHECK(inferred({{"layers.0.mlp.experts.up_proj", "bf16[16, 8, 8]"},
                  {"layers.1.mlp.experts.up_proj", "bf16[32, 8, 8]"}}) == "");
  // Layers may stand in front: a stack of stacks tells nothing.
  CHECK(inferred({{"layers/mlp/experts/up_proj/kernel",
                   "bf16[24, 32, 8, 8]"}}) == "");
}

TEST_CASE("tensors that contradict each other tell nothing") {
  struct Row {
    const char* why;
    std::vector<NamedType> tensors;
    const char* facts;
  };
  const std::vector<Row> rows = {
      {"layers differ",
       {{"layers.0.self_attn.q_proj.weight", "bf16[1024, 1024]"},
        {"layers.1.self_attn.q_proj.weight", "bf16[2048, 1024]"}},
       ""},
      {"no attention", {{"mlp.up_proj.weight", "bf16[64, 64]"}}, ""},
      {"nothing at all", {}, ""},
      {"rows that no guess divides",
       {{"self_attn.q_proj.weight", "bf16[1000, 1024]"}},
       ""},
      {"fewer query heads than KV heads",
       {{"self_attn.q_proj.weight", "bf16[1024, 1024]"},
        {"self_attn.k_proj.weight", "bf16[2048, 1024]"}},
       "heads 16, dim 64"},
      {"a norm over all heads together leaves the guess",
       {{"self_attn.q_proj.weight", "bf16[1024, 1024]"},
        {"self_attn.q_norm.weight", "bf16[1024]"}},
       "heads 16, dim 64"},
      {"latent attention: heads of several sizes",
       {{"self_attn.q_proj.weight", "bf16[3072, 2048]"},
        {"self_attn.kv_b_proj.weight", "bf16[4096, 512]"}},
       ""},
      {"another tower",
       {{"vision_tower.layers.0.self_attn.q_proj.weight", "bf16[64, 64]"}},
       ""},
      {"a stack of layers under a name that is usually flat",
       {{"layers/self_attn/q_proj/kernel", "bf16[24, 1024, 1024]"}},
       ""},
      {"GPT-2's fused projection",
       {{"h.0.attn.c_attn.weight", "f32[768, 2304]"},
        {"h.0.attn.c_proj.weight", "f32[768, 768]"}},
       ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.why);
    CHECK(inferred(row.tensors) == row.facts);
  }
}

TEST_CASE("hostile sizes and numbers infer nothing wrong") {
  CHECK(inferred({{"self_attn.q_proj.weight", "bf16[0, 1024]"}}) == "");
  CHECK(inferred({{"self_attn.q_proj.weight", "bf16[1024, 0]"}}) == "");
  CHECK(inferred({{"self_attn.q_proj.weight", "bf16[1024, 1024]"},
                  {"self_attn.k_proj.weight", "bf16[0, 1024]"},
                  {"self_attn.q_norm.weight", "bf16[0]"},
                  {"self_attn.sinks", "bf16[0]"}}) == "heads 16, dim 64");
  CHECK(inferred({{"self_attention/query/kernel", "bf16[4, 0, 0]"}}) == "");
  CHECK(inferred({{"experts.9223372036854775807.w1.weight", "bf16[2, 2]"}}) ==
        "");
  CHECK(inferred({{"experts.99999999999999999999.w1.weight", "bf16[2, 2]"}}) ==
        "");
  CHECK(inferred({{"mlp.experts.up_proj", "bf16[0, 2, 2]"}}) == "");
  CHECK(inferred({{"self_attn.q_proj.weight", "bf16[]"},
                  {"self_attn.query", "bf16[]"},
                  {"weight", "bf16[1]"},
                  {"", "bf16[1]"}}) == "");
}

}  // namespace

}  // namespace shardplan
