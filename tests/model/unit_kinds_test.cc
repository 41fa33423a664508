// SPDX-License-Identifier: Apache-2.0
// src/model/unit_kinds.cc

#include <memory>
#include <string>
#include <utility>

#include "core/fold.h"
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::attention_facts;
using testing::check_units;

TEST_CASE("projections of attention consist of heads, in either layout") {
  check_units(
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

TEST_CASE("adapters have the units of what they adapt") {
  const std::string layer = "base_model.model.model.layers.0.";
  check_units(
      {
          {layer + "self_attn.q_proj.base_layer.weight", "bf16[4096, 2048]",
           "0: 32 head"},
          {layer + "self_attn.q_proj.lora_B.default.weight", "f32[4096, 8]",
           "0: 32 head"},
          {layer + "self_attn.k_proj.lora_B.weight", "f32[1024, 16]",
           "0: 8 KV head"},
          {layer + "self_attn.o_proj.lora_A.default.weight", "f32[8, 4096]",
           "1: 32 head"},
          {layer + "self_attn.q_proj.lora_A.default.weight", "f32[8, 2048]",
           ""},
          {layer + "self_attn.o_proj.lora_B.default.weight", "f32[2048, 8]",
           ""},
          // A rank of as many as there are rows of heads.
          {layer + "self_attn.q_proj.lora_A.default.weight", "f32[4096, 2048]",
           ""},
          {layer + "self_attn.o_proj.lora_B.default.weight", "f32[2048, 4096]",
           ""},
          {layer + "mlp.up_proj.lora_B.default.weight", "f32[4096, 8]", ""},
          {layer + "self_attn.q_proj.lora_magnitude_vector.default.weight",
           "f32[4096]", ""},
          {layer + "self_attn.q_proj.lora_B.a.b.weight", "f32[4096, 8]", ""},
      },
      attention_facts(32, 8, 128));
}

TEST_CASE("adapters have the units that an architecture says") {
  auto kinds = std::make_shared<ParameterKinds>();
  const auto name = [](const char* end) {
    return std::string("m.layers.7.mixer.wide.") + end;
  };
  (*kinds)[{folded_name(name("base_layer.weight")), Shape{64, 32}}] = {
      DimKind{"heads", 8}, DimKind{"hidden"}};
  (*kinds)[{folded_name("m.layers.7.mixer.turned.weight"), Shape{32, 64}}] = {
      DimKind{"hidden"}, DimKind{"heads", 16}};
  LayoutHints hints;
  hints.kinds = kinds;
  const auto units = [&](const std::string& of, Shape shape) {
    std::string text;
    for (const Unit& unit :
         units_of(of, {DType::F32, std::move(shape)}, {}, hints)) {
      text += std::to_string(unit.dim) + ": " + std::to_string(unit.count);
    }
    return text;
  };
  CHECK(units(name("lora_B.default.weight"), {64, 4}) == "0: 8");
  CHECK(units(name("lora_A.default.weight"), {4, 32}) == "");
  CHECK(units("m.layers.7.mixer.turned.lora_B.weight", {64, 4}) == "0: 16");
  // Not of that weight.
  CHECK(units(name("lora_B.default.weight"), {60, 4}) == "");
}

TEST_CASE("a dimension within a head cannot be cut at all") {
  check_units(
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
  check_units({{"self_attn.k_proj.weight", "f32[128, 2048]", "0: 1 KV head"}},
              attention_facts(16, 1, 128));
}

TEST_CASE("scanned layers add a dimension in front or second") {
  check_units(
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
          // As many layers as heads: which is which is not known.
          {"layers/self_attention/out/kernel", "f32[32, 32, 128, 2048]", ""},
          {"layers/self_attn/o_proj/kernel", "f32[4096, 4096, 2048]", ""},
          {"layers/self_attn/q_proj/kernel", "f32[2, 3, 4, 5, 4096]", ""},
      },
      attention_facts(32, 8, 128));
}

TEST_CASE("latent attention has heads above the latents only") {
  Facts facts;
  facts.heads = 128;
  facts.kv_heads = 128;
  check_units(
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
  check_units({{"layers.0.self_attn.kv_b_proj.weight", "bf16[32768, 512]",
                "0: 128 head"}},
              facts);
}

TEST_CASE("GPT-2 stores the output projection the other way round") {
  check_units(
      {
          {"h.0.attn.c_proj.weight", "f32[768, 768]", "0: 12 head"},
          {"transformer/h/0/attn/c_proj/kernel", "f32[768, 768]", "1: 12 head"},
          {"h.0.attn.c_proj.bias", "f32[768]", ""},
          {"h.0.attn.c_attn.weight", "f32[768, 2304]", "1: q 768 k 768 v 768"},
          {"h.0.mlp.c_proj.weight", "f32[3072, 768]", ""},
      },
      attention_facts(12, 12, 64));
  // GPTBigCode has one KV head and an ordinary linear layer of that name.
  check_units({{"h.0.attn.c_proj.weight", "f32[768, 768]", ""}},
              attention_facts(12, 1, 64));
}

TEST_CASE("a shape that does not agree with the facts claims nothing") {
  check_units(
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
  Facts facts;
  facts.heads = 32;
  check_units({{"self_attn.q_proj.weight", "bf16[4096, 64]", "0: 32 head"},
               {"self_attn.q_proj.weight", "bf16[4095, 64]", ""},
               {"self_attn.k_proj.weight", "bf16[4096, 64]", ""},
               // Without the size of a head a third dimension cannot be read.
               {"self_attention/query/kernel", "bf16[64, 32, 128]", ""}},
              facts);
}

// Layouts: split_heads of Falcon, NeoX and BLOOM, wqkv of InternLM2, linear_qkv
// of Megatron, and the slices that GPT-2, Phi-3, DBRX, ChatGLM and Baichuan
// take.
TEST_CASE("fused q, k, v lie side by side or in groups") {
  check_units(
      {
          // 32 x 128 + 2 x 8 x 128 rows.
          {"model.layers.0.self_attn.qkv_proj.weight", "bf16[6144, 4096]",
           "0: q 4096 k 1024 v 1024"},
          {"model.layers.0.self_attn.qkv_proj.bias", "bf16[6144]",
           "0: q 4096 k 1024 v 1024"},
          {"model/layers/0/self_attn/qkv_proj/kernel", "bf16[4096, 6144]",
           "1: q 4096 k 1024 v 1024"},
          {"model/layers/self_attn/qkv_proj/kernel", "bf16[24, 4096, 6144]",
           "2: q 4096 k 1024 v 1024"},
          {"transformer.blocks.0.norm_attn_norm.attn.Wqkv.weight",
           "bf16[6144, 4096]", "0: q 4096 k 1024 v 1024"},
          {"layers.0.attention.wqkv.weight", "bf16[6144, 4096]",
           "0: q 4096 k 1024 v 1024"},
          {"transformer.encoder.layers.0.self_attention.query_key_value.weight",
           "bf16[6144, 4096]", "0: q 4096 k 1024 v 1024"},
          {"model.layers.0.attention.wqkv.weight", "bf16[6144, 4096]",
           "0: 8 head group"},
          {"transformer.h.0.self_attention.query_key_value.weight",
           "bf16[6144, 4096]", "0: 8 head group"},
          {"decoder.layers.0.self_attention.linear_qkv.weight",
           "bf16[6144, 4096]", "0: 8 head group"},
          {"decoder.layers.0.self_attention.linear_qkv.bias", "bf16[6144]",
           "0: 8 head group"},
          // Other sizes than the facts give claim nothing.
          {"model.layers.0.self_attn.qkv_proj.weight", "bf16[6145, 4096]", ""},
          {"model.layers.0.self_attn.qkv_proj.weight", "bf16[4096, 6144]", ""},
          {"vision.layers.0.self_attn.qkv_proj.weight", "bf16[6144, 4096]", ""},
          {"model.layers.0.mlp.qkv_proj.weight", "bf16[6144, 4096]", ""},
      },
      attention_facts(32, 8, 128));
}

TEST_CASE("a group of one query head is a head with its key and value") {
  check_units(
      {{"gpt_neox.layers.0.attention.query_key_value.weight", "f16[6144, 2048]",
        "0: 16 head group"},
       {"h.0.self_attention.query_key_value.bias", "f16[6144]",
        "0: 16 head group"},
       {"h.0.self_attention.dense.weight", "f16[2048, 2048]", "1: 16 head"},
       {"decoder.layers.0.self_attention.linear_proj.weight", "f16[2048, 2048]",
        "1: 16 head"}},
      attention_facts(16, 16, 128));
}

TEST_CASE("with one KV head a single group is q, k and v side by side") {
  check_units({{"transformer.h.0.self_attention.query_key_value.weight",
                "bf16[4672, 4544]", "0: q 4544 k 64 v 64"}},
              attention_facts(71, 1, 64));
  // GPTBigCode's c_attn is an ordinary linear layer, GPT-2's is transposed.
  check_units({{"transformer.h.0.attn.c_attn.weight", "f32[2304, 2048]",
                "0: q 2048 k 128 v 128"},
               {"transformer.h.0.attn.c_attn.weight", "f32[2048, 2304]",
                "1: q 2048 k 128 v 128"},
               {"transformer.h.0.attn.c_attn.weight", "f32[2304, 2304]", ""},
               {"transformer.h.0.attn.c_attn.bias", "f32[2304]",
                "0: q 2048 k 128 v 128"}},
              attention_facts(16, 1, 128));
}

TEST_CASE("llama.cpp has its projections below a layer's number") {
  check_units(
      {{"blk.0.attn_q.weight", "q4_k[4096, 4096]",
        "0: 32 head, 1: 16 quantisation block"},
       {"blk.0.attn_k.weight", "f16[1024, 4096]", "0: 8 KV head"},
       {"blk.0.attn_v.bias", "f32[1024]", "0: 8 KV head"},
       {"blk.0.attn_output.weight", "f16[4096, 4096]", "1: 32 head"},
       {"blk.0.attn_qkv.weight", "f16[6144, 4096]", "0: q 4096 k 1024 v 1024"},
       {"blk.0.attn_norm.weight", "f32[4096]", ""},
       {"blk.0.attn_q_norm.weight", "f32[128]", ""},
       {"attn_q.weight", "f16[4096, 4096]", ""},
       {"v.blk.x.attn_q.weight", "f16[4096, 4096]", ""}},
      attention_facts(32, 8, 128));
}

TEST_CASE("values and outputs have the size of a value's head") {
  Facts facts = attention_facts(16, 16, 192);
  facts.value_dim = 128;
  check_units(
      {{"layers.0.self_attn.q_proj.weight", "bf16[3072, 2048]", "0: 16 head"},
       {"layers.0.self_attn.v_proj.weight", "bf16[2048, 2048]",
        "0: 16 KV head"},
       {"layers.0.self_attn.o_proj.weight", "bf16[2048, 2048]", "1: 16 head"},
       {"layers.0.self_attn.o_proj.weight", "bf16[2048, 3072]", ""},
       // Parts of different sizes are not known.
       {"layers.0.self_attn.qkv_proj.weight", "bf16[9216, 2048]", ""}},
      facts);
}

// src/model/unit_kinds.cc

Facts blocks(int64_t rows, int64_t columns) {
  Facts facts;
  facts.quant_rows = rows;
  facts.quant_columns = columns;
  return facts;
}

TEST_CASE("FP8 matrices consist of blocks of rows and of columns") {
  check_units(
      {
          {"mlp.up_proj.weight", "f8_e4m3fn[2048, 7168]",
           "0: 16 quantisation block, 1: 56 quantisation block"},
          // 576 is four blocks and a half: no equal shards begin at blocks.
          {"self_attn.kv_a_proj_with_mqa.weight", "f8_e4m3fn[576, 7168]",
           "0: 1 quantisation block, 1: 56 quantisation block"},
          {"mlp.experts.up", "f8_e4m3[8, 256, 384]",
           "1: 2 quantisation block, 2: 3 quantisation block"},
          // Not quantised, or not a matrix.
          {"embed_tokens.weight", "bf16[129280, 7168]", ""},
          {"mlp.up_proj.weight_scale", "f8_e8m0[16, 56]", ""},
          {"mlp.up_proj.packed", "u8[2048, 7168]", ""},
          {"norm.weight", "f8_e4m3fn[7168]", ""},
      },
      blocks(128, 128));
}

TEST_CASE("formats that quantise along a row have blocks of columns only") {
  check_units({{"w", "i4[64, 512]", "1: 2 quantisation block"},
               {"w", "f4_e2m1[64, 16]", "1: 1 quantisation block"},
               {"w", "f4_e2m1[64, 0]", ""}},
              blocks(1, 256));
  Facts columns;
  columns.quant_columns = 32;
  check_units({{"w", "f4_e2m1[64, 512]", "1: 16 quantisation block"}}, columns);
}

TEST_CASE("an MXFP4 checkpoint keeps the bytes of a block together") {
  check_units({{"mlp.experts.down_proj_blocks", "u8[32, 2880, 90, 16]",
                "3: 1 quantisation block"},
               {"mlp.experts.down_proj_scales", "u8[32, 2880, 90]", ""},
               {"mlp.experts.down_proj_blocks", "u8[32, 2880, 90]", ""},
               {"mlp.experts.down_proj_blocks", "bf16[32, 2880, 90, 16]", ""}},
              blocks(1, 32));
}

TEST_CASE("the types of GGUF are blocks of a row, whatever the facts say") {
  const std::vector<testing::UnitRow> rows = {
      {"blk.0.ffn_up.weight", "q4_k[14336, 4096]", "1: 16 quantisation block"},
      {"blk.0.ffn_up.weight", "q8_0[14336, 4096]", "1: 128 quantisation block"},
      {"blk.0.ffn_up.weight", "mxfp4[32, 2880, 2880]",
       "2: 90 quantisation block"},
      {"w", "q6_k[512]", "0: 2 quantisation block"},
      {"w", "q4_k[8, 100]", "1: 1 quantisation block"},
      {"w", "q4_k[]", ""},
      {"w", "f16[8, 256]", ""}};
  check_units(rows, {});
  check_units(rows, blocks(128, 128));
}

TEST_CASE("every axis meets a block that is how elements are stored") {
  const auto stored = units_of("w", testing::type("q4_k[8, 4096]"), {});
  const auto scaled =
      units_of("w", testing::type("f8_e4m3[8, 4096]"), blocks(1, 256));
  REQUIRE(stored.size() == 1);
  REQUIRE(scaled.size() == 1);
  const AxisNames axes = {"fsdp", "ep", "tp"};
  CHECK(cutting_axes(stored[0], axes) == axes);
  CHECK(cutting_axes(scaled[0], axes) == AxisNames{"tp"});
}

TEST_CASE("absurd blocks claim nothing") {
  for (const int64_t bad : {int64_t{1}, int64_t{0}, int64_t{-128}, INT64_MIN}) {
    CAPTURE(bad);
    check_units({{"w", "f8_e4m3fn[256, 256]", ""}}, blocks(bad, bad));
  }
}

// src/model/unit_kinds.cc

TEST_CASE("stacked experts are units of their first dimension") {
  Facts facts;
  facts.experts = 32;
  check_units(
      {
          {"layers.0.mlp.experts.gate_up_proj_blocks", "u8[32, 5760, 90, 16]",
           "0: 32 expert, 1: 2880 gate/up pair, 3: 1 quantisation block"},
          {"layers.0.mlp.experts.down_proj_scales", "u8[32, 2880, 90]",
           "0: 32 expert"},
          {"layers.0.mlp.experts.gate_up_proj_bias", "bf16[32, 5760]",
           "0: 32 expert, 1: 2880 gate/up pair"},
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

TEST_CASE("DBRX has the rows of all experts in one matrix") {
  Facts facts;
  facts.experts = 16;
  check_units(
      {{"transformer.blocks.0.ffn.experts.mlp.w1", "bf16[172032, 6144]",
        "0: 16 expert"},
       {"transformer.blocks.0.ffn.experts.mlp.v1", "bf16[172032, 6144]",
        "0: 16 expert"},
       {"transformer.blocks.0.ffn.experts.mlp.w2", "bf16[172032, 6144]",
        "0: 16 expert"},
       {"transformer.blocks.0.ffn.experts.mlp.w2", "bf16[172033, 6144]", ""},
       {"transformer.blocks.0.ffn.experts.mlp.w2", "bf16[8, 6144]", ""},
       {"transformer.blocks.0.ffn.mlp.w2", "bf16[172032, 6144]", ""},
       {"transformer.blocks.0.ffn.router.layer.weight", "bf16[16, 6144]", ""}},
      facts);
}

TEST_CASE("llama.cpp stacks the experts of a layer") {
  Facts facts;
  facts.experts = 8;
  check_units(
      {{"blk.0.ffn_gate_exps.weight", "f16[8, 14336, 4096]", "0: 8 expert"},
       {"blk.0.ffn_down_exps.bias", "f32[8, 4096]", "0: 8 expert"},
       {"blk.0.ffn_gate_shexp.weight", "f16[8, 64, 64]", ""},
       {"blk.0.ffn_gate_inp.weight", "f32[8, 4096]", ""}},
      facts);
}

TEST_CASE("experts form groups where routing chooses among them") {
  Facts facts;
  facts.experts = 256;
  facts.expert_groups = 8;
  check_units({{"layers/0/mlp/experts/up_proj/kernel", "bf16[256, 64, 32]",
                "0: 256 expert, 0: 8 expert group"}},
              facts);
  for (const int64_t none : {int64_t{0}, int64_t{1}, int64_t{-8}, int64_t{7}}) {
    facts.expert_groups = none;
    check_units({{"layers/0/mlp/experts/up_proj/kernel", "bf16[256, 64, 32]",
                  "0: 256 expert"}},
                facts);
  }
}

// src/model/unit_kinds.cc

using testing::manifest;

TEST_CASE("every tensor of scanned layers has the stack among its dimensions") {
  const LayoutHints hints = layout_hints(
      manifest({{"model/layers/mlp/up_proj/kernel", "bf16[24, 64, 256]"},
                {"model/layers/mlp/down_proj/kernel", "bf16[24, 256, 64]"},
                {"model/layers/norm/scale", "bf16[24, 64]"},
                {"model/embed/embedding", "bf16[1000, 64]"}}));
  check_units(
      {{"model/layers/mlp/up_proj/kernel", "bf16[24, 64, 256]",
        "0: 24 stacked layer"},
       {"model/layers/norm/scale", "bf16[24, 64]", "0: 24 stacked layer"},
       {"model/embed/embedding", "bf16[1000, 64]", ""},
       // Another stack, and one layer by itself.
       {"other/layers/norm/scale", "bf16[24, 64]", ""},
       {"model/layers/0/norm/scale", "bf16[24, 64]", ""}},
      {}, hints);
}

TEST_CASE("MaxText stacks along the second dimension") {
  const LayoutHints hints = layout_hints(manifest(
      {{"decoder/layers/self_attention/query/kernel", "f32[64, 24, 8, 16]"},
       {"decoder/layers/mlp/wi_0/kernel", "f32[64, 24, 256]"},
       {"decoder/layers/mlp/wo/kernel", "f32[256, 24, 64]"},
       {"decoder/layers/pre_norm/scale", "f32[64, 24]"}}));
  check_units(
      {{"decoder/layers/mlp/wo/kernel", "f32[256, 24, 64]",
        "1: 24 stacked layer"},
       {"decoder/layers/pre_norm/scale", "f32[64, 24]", "1: 24 stacked layer"}},
      {}, hints);
}

// src/model/unit_kinds.cc

TEST_CASE("gate and up are halves of the output, in either layout") {
  check_units(
      {
          {"model.layers.0.mlp.gate_up_proj.weight", "bf16[16384, 3072]",
           "0: gate 8192 up 8192"},
          {"model/layers/0/mlp/gate_up_proj/kernel", "bf16[3072, 16384]",
           "1: gate 8192 up 8192"},
          {"model.layers.0.mlp.gate_up_proj.bias", "bf16[16384]",
           "0: gate 8192 up 8192"},
          {"model/layers/mlp/gate_up_proj/kernel", "bf16[24, 3072, 16384]",
           "2: gate 8192 up 8192"},
          {"model.layers.0.mlp.w13.weight", "bf16[16384, 3072]",
           "0: gate 8192 up 8192"},
          {"model.layers.0.mlp.gate_up_proj.weight", "bf16[16383, 3072]", ""},
          {"model.layers.0.mlp.gate_up_proj.weight", "bf16[0, 3072]", ""},
          {"model.layers.0.mlp.gate_up_proj.lora_A", "bf16[8, 3072]", ""},
          {"model.layers.0.mlp.up_proj.weight", "bf16[8192, 3072]", ""},
      },
      {});
}

TEST_CASE("other names are packed where the sibling takes half of them") {
  const LayoutHints glm = layout_hints(manifest(
      {{"encoder.layers.0.mlp.dense_h_to_4h.weight", "f16[27392, 4096]"},
       {"encoder.layers.0.mlp.dense_4h_to_h.weight", "f16[4096, 13696]"},
       {"decoder.layers.0.mlp.linear_fc2.weight", "f16[512, 256]"}}));
  check_units(
      {{"encoder.layers.0.mlp.dense_h_to_4h.weight", "f16[27392, 4096]",
        "0: gate 13696 up 13696"},
       {"encoder.layers.0.mlp.dense_h_to_4h.bias", "f16[27392]",
        "0: gate 13696 up 13696"},
       {"decoder.layers.0.mlp.linear_fc1.weight", "f16[512, 512]",
        "0: gate 256 up 256"},
       {"decoder.layers.0.mlp.linear_fc1.weight", "f16[256, 512]", ""},
       {"decoder.layers.0.mlp.linear_fc1.weight", "f16[1024, 512]", ""}},
      {}, glm);
  // BLOOM, NeoX and Falcon have an ungated layer of that name.
  const LayoutHints bloom = layout_hints(
      manifest({{"h.0.mlp.dense_h_to_4h.weight", "f16[16384, 4096]"},
                {"h.0.mlp.dense_4h_to_h.weight", "f16[4096, 16384]"}}));
  check_units({{"h.0.mlp.dense_h_to_4h.weight", "f16[16384, 4096]", ""}}, {},
              bloom);
  check_units({{"h.0.mlp.dense_h_to_4h.weight", "f16[16384, 4096]", ""}}, {});
}

TEST_CASE("the sibling tells which dimension of stacked experts is packed") {
  // Llama 4: [E, in, 2 x inner] and [E, inner, in].
  const std::string llama = "layers.0.feed_forward.experts.";
  const LayoutHints kernels =
      layout_hints(manifest({{llama + "gate_up_proj", "bf16[16, 5120, 16384]"},
                             {llama + "down_proj", "bf16[16, 8192, 5120]"}}));
  check_units({{llama + "gate_up_proj", "bf16[16, 5120, 16384]",
                "2: gate 8192 up 8192"}},
              {}, kernels);
  // transformers 5 and vLLM: [E, 2 x inner, in] and [E, in, inner].
  const std::string mixtral = "layers.0.mlp.experts.";
  const LayoutHints weights =
      layout_hints(manifest({{mixtral + "down_proj", "bf16[8, 4096, 14336]"},
                             {mixtral + "w2_weight", "bf16[8, 64, 32]"}}));
  check_units({{mixtral + "gate_up_proj", "bf16[8, 28672, 4096]",
                "1: gate 14336 up 14336"},
               {mixtral + "w13_weight", "bf16[8, 64, 64]", "1: gate 32 up 32"},
               {mixtral + "gate_up_proj", "bf16[8, 100, 200]", ""}},
              {}, weights);
  // Nothing is claimed without one.
  check_units({{mixtral + "gate_up_proj", "bf16[8, 28672, 4096]", ""}}, {});
}

TEST_CASE("gpt-oss alternates gate and up, and is recognised by its biases") {
  const std::string at = "model.layers.0.mlp.experts.";
  Facts facts;
  facts.experts = 32;
  const LayoutHints hints =
      layout_hints(manifest({{at + "gate_up_proj_bias", "bf16[32, 5760]"}}));
  CHECK(hints.alternating_experts);
  check_units({{at + "gate_up_proj", "bf16[32, 2880, 5760]",
                "0: 32 expert, 2: 2880 gate/up pair"},
               {at + "gate_up_proj_bias", "bf16[32, 5760]",
                "0: 32 expert, 1: 2880 gate/up pair"},
               {at + "gate_up_proj_blocks", "u8[32, 5760, 90, 16]",
                "0: 32 expert, 1: 2880 gate/up pair, 3: 1 quantisation block"},
               {at + "gate_up_proj_scales", "u8[32, 5760, 90]",
                "0: 32 expert, 1: 2880 gate/up pair"},
               {at + "down_proj", "bf16[32, 2880, 2880]", "0: 32 expert"}},
              facts, hints);
}

}  // namespace

}  // namespace shardplan
