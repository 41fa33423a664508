// SPDX-License-Identifier: Apache-2.0
// src/resolve/units_attention.cc
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
  ModelFacts facts;
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
  ModelFacts facts = attention_facts(16, 16, 192);
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

}  // namespace
}  // namespace shardplan
