// SPDX-License-Identifier: Apache-2.0
#include "resolve/units.h"

#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::type;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

ModelFacts attention_facts(int64_t heads, int64_t kv_heads, int64_t head_dim) {
  ModelFacts facts;
  facts.from = FactsFrom::Config;
  facts.heads = heads;
  facts.kv_heads = kv_heads;
  facts.head_dim = head_dim;
  return facts;
}

// "0: 32 heads, 1: 1 KV head"
std::string text_of(const std::vector<Unit>& units) {
  std::string text;
  for (const Unit& unit : units) {
    if (!text.empty()) text += ", ";
    text += std::to_string(unit.dim) + ": " + std::to_string(unit.count) + " " +
            std::string(unit_name(unit.kind));
  }
  return text;
}

struct Row {
  std::string name;
  std::string type;
  std::string units;
};

void check(const std::vector<Row>& rows, const ModelFacts& facts) {
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.type);
    CHECK(text_of(units_of(row.name, type(row.type), facts)) == row.units);
  }
}

TEST_CASE("projections of attention consist of heads, in either layout") {
  check(
      {
          {"model.layers.0.self_attn.q_proj.weight", "bf16[4096, 2048]",
           "0: 32 head"},
          {"model.layers.0.self_attn.k_proj.weight", "bf16[1024, 2048]",
           "0: 8 KV head"},
          {"model.layers.0.self_attn.v_proj.weight", "bf16[1024, 2048]",
           "0: 8 KV head"},
          {"model.layers.0.self_attn.o_proj.weight", "bf16[2048, 4096]",
           "1: 32 head"},
          {"model.layers.0.self_attn.q_proj.bias", "bf16[4096]", "0: 32 head"},
          {"model.layers.0.self_attn.k_proj.bias", "bf16[1024]",
           "0: 8 KV head"},
          {"model.layers.0.self_attn.o_proj.bias", "bf16[2048]", ""},
          {"mu/model/layers/0/self_attn/q_proj/kernel", "f32[2048, 4096]",
           "1: 32 head"},
          {"model/layers/0/self_attn/v_proj/kernel", "bf16[2048, 1024]",
           "1: 8 KV head"},
          {"model/layers/0/self_attn/o_proj/kernel", "bf16[4096, 2048]",
           "0: 32 head"},
          {"layers.0.attention.wq.weight", "bf16[4096, 2048]", "0: 32 head"},
          {"transformer/h/0/attention/wk/kernel", "bf16[2048, 1024]",
           "1: 8 KV head"},
          {"transformer/h/0/attention/wo/kernel", "bf16[4096, 2048]",
           "0: 32 head"},
          {"model.layers.0.self_attn.sinks", "bf16[32]", "0: 32 head"},
      },
      attention_facts(32, 8, 128));
}

TEST_CASE("a dimension within a head cannot be cut at all") {
  check(
      {
          {"layers_0/self_attention/query/kernel", "f32[2048, 32, 128]",
           "1: 32 head, 2: 1 head"},
          {"layers_0/self_attention/key/kernel", "f32[2048, 8, 128]",
           "1: 8 KV head, 2: 1 KV head"},
          {"layers_0/self_attention/query/bias", "f32[32, 128]",
           "0: 32 head, 1: 1 head"},
          {"layers_0/self_attention/out/kernel", "f32[32, 128, 2048]",
           "0: 32 head, 1: 1 head"},
          // The only KV head of multi-query attention.
          {"layers_0/self_attention/value/kernel", "f32[2048, 1, 128]", ""},
      },
      attention_facts(32, 8, 128));
  check({{"self_attn.k_proj.weight", "f32[128, 2048]", "0: 1 KV head"}},
        attention_facts(16, 1, 128));
}

TEST_CASE("scanned layers add a dimension in front or second") {
  check(
      {
          {"layers/self_attention/query/kernel", "f32[2048, 24, 32, 128]",
           "2: 32 head, 3: 1 head"},
          {"layers/self_attention/key/kernel", "f32[24, 2048, 8, 128]",
           "2: 8 KV head, 3: 1 KV head"},
          {"layers/self_attention/out/kernel", "f32[32, 24, 128, 2048]",
           "0: 32 head, 2: 1 head"},
          {"layers/self_attention/out/kernel", "f32[24, 32, 128, 2048]",
           "1: 32 head, 2: 1 head"},
          {"layers/self_attn/q_proj/kernel", "f32[24, 2048, 4096]",
           "2: 32 head"},
          {"layers/self_attn/q_proj/bias", "f32[24, 4096]", "1: 32 head"},
          {"layers/self_attn/o_proj/kernel", "f32[24, 4096, 2048]",
           "1: 32 head"},
          {"layers/self_attn/o_proj/kernel", "f32[4096, 24, 2048]",
           "0: 32 head"},
          // As many layers as heads: which is which cannot be told.
          {"layers/self_attention/out/kernel", "f32[32, 32, 128, 2048]", ""},
          {"layers/self_attn/o_proj/kernel", "f32[4096, 4096, 2048]", ""},
          {"layers/self_attn/q_proj/kernel", "f32[2, 3, 4, 5, 4096]", ""},
      },
      attention_facts(32, 8, 128));
}

TEST_CASE("latent attention has heads above the latents only") {
  ModelFacts facts;
  facts.heads = 128;
  facts.kv_heads = 128;
  check(
      {
          {"layers.0.self_attn.q_b_proj.weight", "bf16[24576, 1536]",
           "0: 128 head"},
          {"layers.0.self_attn.kv_b_proj.weight", "bf16[32768, 512]",
           "0: 128 head"},
          {"layers/0/self_attn/kv_b_proj/kernel", "bf16[512, 32768]",
           "1: 128 head"},
          {"layers.0.self_attn.o_proj.weight", "bf16[7168, 16384]",
           "1: 128 head"},
          {"layers.0.self_attn.q_a_proj.weight", "bf16[1536, 7168]", ""},
          {"layers.0.self_attn.kv_a_proj_with_mqa.weight", "bf16[576, 7168]",
           ""},
          {"layers.0.self_attn.q_a_layernorm.weight", "bf16[1536]", ""},
      },
      facts);
  // The size of a query head says nothing of what kv_b_proj gives a head.
  facts.head_dim = 192;
  check({{"layers.0.self_attn.kv_b_proj.weight", "bf16[32768, 512]",
          "0: 128 head"}},
        facts);
}

TEST_CASE("GPT-2 stores the output projection the other way round") {
  check(
      {
          {"h.0.attn.c_proj.weight", "f32[768, 768]", "0: 12 head"},
          {"transformer/h/0/attn/c_proj/kernel", "f32[768, 768]", "1: 12 head"},
          {"h.0.attn.c_proj.bias", "f32[768]", ""},
          {"h.0.attn.c_attn.weight", "f32[768, 2304]", ""},
          {"h.0.mlp.c_proj.weight", "f32[3072, 768]", ""},
      },
      attention_facts(12, 12, 64));
  // GPTBigCode has one KV head and an ordinary linear layer of that name.
  check({{"h.0.attn.c_proj.weight", "f32[768, 768]", ""}},
        attention_facts(12, 1, 64));
}

TEST_CASE("stacked experts are units of their first dimension") {
  ModelFacts facts;
  facts.experts = 32;
  check(
      {
          {"layers.0.mlp.experts.gate_up_proj_blocks", "u8[32, 5760, 90, 16]",
           "0: 32 expert"},
          {"layers.0.mlp.experts.down_proj_scales", "u8[32, 2880, 90]",
           "0: 32 expert"},
          {"layers.0.mlp.experts.gate_up_proj_bias", "bf16[32, 5760]",
           "0: 32 expert"},
          {"layers/0/mlp/experts/up_proj/kernel", "bf16[32, 64, 128]",
           "0: 32 expert"},
          {"layers/0/mlp/experts/up_proj/bias", "bf16[32, 128]",
           "0: 32 expert"},
          {"layers/MoeBlock_0/wi_0", "bf16[32, 64, 128]", "0: 32 expert"},
          // Scanned layers in front or second.
          {"layers/mlp/experts/up_proj/kernel", "bf16[24, 32, 64, 128]",
           "1: 32 expert"},
          {"layers/mlp/experts/up_proj/kernel", "bf16[32, 24, 64, 128]",
           "0: 32 expert"},
          {"layers/mlp/experts/up_proj/kernel", "bf16[32, 32, 64, 128]", ""},
          // No stack: one expert, a shared one, a router, another number.
          {"layers.0.mlp.experts.3.up_proj.weight", "bf16[32, 64]", ""},
          {"layers/0/mlp/experts/3/up_proj/kernel", "bf16[32, 64, 2]", ""},
          {"layers.0.mlp.shared_experts.up_proj.weight", "bf16[32, 64]", ""},
          {"layers.0.mlp.gate.weight", "bf16[32, 64]", ""},
          {"layers/MoeBlock_0/gate/kernel", "bf16[32, 64]", ""},
          {"layers/0/mlp/experts/up_proj/kernel", "bf16[16, 64, 128]", ""},
      },
      facts);
}

TEST_CASE("a shape that does not agree with the facts claims nothing") {
  check(
      {
          {"self_attn.q_proj.weight", "bf16[4000, 2048]", ""},
          {"self_attn.q_proj.weight", "bf16[8192, 2048]", ""},
          {"self_attn.q_proj.weight", "bf16[0, 2048]", ""},
          {"self_attn.q_proj.weight", "bf16[4096]", ""},
          {"self_attn.q_proj.weight", "bf16[]", ""},
          {"self_attn/q_proj/kernel", "bf16[4096]", ""},
          {"self_attn/q_proj/bias", "bf16[]", ""},
          {"self_attn/o_proj/kernel", "bf16[]", ""},
          {"self_attn.q_proj.weight", "bf16[4096, 2048, 1]", ""},
          {"self_attn.sinks", "bf16[31]", ""},
          {"self_attn.sinks", "bf16[]", ""},
          {"self_attn.q_norm.weight", "bf16[128]", ""},
          {"mlp.down_proj.weight", "bf16[2048, 4096]", ""},
          {"vision_tower.layers.0.self_attn.q_proj.weight", "bf16[4096, 4096]",
           ""},
          {"", "bf16[4096, 4096]", ""},
      },
      attention_facts(32, 8, 128));
}

TEST_CASE("a model without a KV head count claims no KV heads") {
  ModelFacts facts;
  facts.heads = 32;
  check({{"self_attn.q_proj.weight", "bf16[4096, 64]", "0: 32 head"},
         {"self_attn.q_proj.weight", "bf16[4095, 64]", ""},
         {"self_attn.k_proj.weight", "bf16[4096, 64]", ""},
         // Without the size of a head a third dimension cannot be read.
         {"self_attention/query/kernel", "bf16[64, 32, 128]", ""}},
        facts);
}

TEST_CASE("absurd facts claim nothing") {
  const std::vector<Row> rows = {
      {"self_attn.q_proj.weight", "bf16[4096, 2048]", ""},
      {"self_attn.k_proj.bias", "bf16[4096]", ""},
      {"self_attn.o_proj.weight", "bf16[2048, 4096]", ""},
      {"self_attn.sinks", "bf16[0]", ""},
      {"self_attention/out/kernel", "bf16[0, 0, 4]", ""},
      {"mlp.experts.gate_up_proj", "bf16[0, 4, 4]", ""},
  };
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, kHuge, -kHuge}) {
    for (const int64_t dim : {int64_t{0}, int64_t{-128}, int64_t{4}, kHuge}) {
      CAPTURE(bad);
      CAPTURE(dim);
      ModelFacts facts = attention_facts(bad, bad, dim);
      facts.experts = bad;
      check(rows, facts);
    }
  }
}

TEST_CASE("a unit always divides its dimension") {
  const std::vector<std::string> names = {
      "self_attn.q_proj.weight",     "self_attn/k_proj/kernel",
      "self_attention/query/kernel", "self_attention/out/kernel",
      "self_attn.o_proj.weight",     "self_attn.q_proj.bias",
      "self_attn.kv_b_proj.weight",  "attn.c_proj.weight",
      "attn/c_proj/kernel",          "self_attn.sinks",
      "mlp.experts.gate_up_proj",    "mlp/experts/up_proj/bias"};
  const std::vector<int64_t> sizes = {0, 1, 2, 3, 4, 6, 8};
  // All shapes of up to three dimensions of these sizes.
  std::vector<Shape> shapes = {{}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].size() == 3) continue;
    for (const int64_t size : sizes) {
      Shape longer = shapes[i];
      longer.push_back(size);
      shapes.push_back(std::move(longer));
    }
  }
  int claimed = 0;
  for (const std::string& name : names) {
    for (const int64_t count : sizes) {
      ModelFacts facts = attention_facts(count, count, 2);
      facts.experts = count;
      for (const Shape& shape : shapes) {
        for (const Unit& unit : units_of(name, {DType::F32, shape}, facts)) {
          ++claimed;
          const auto dim = static_cast<size_t>(unit.dim);
          const bool divides = unit.dim >= 0 && dim < shape.size() &&
                               unit.count >= 1 && shape[dim] % unit.count == 0;
          CAPTURE(name);
          CAPTURE(shape_text(shape));
          CHECK(divides);
        }
      }
    }
  }
  CHECK(claimed > 0);
}

}  // namespace
}  // namespace shardplan
