// SPDX-License-Identifier: Apache-2.0
// src/resolve/units_experts.cc
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::check_units;

TEST_CASE("stacked experts are units of their first dimension") {
  ModelFacts facts;
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
  ModelFacts facts;
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
  ModelFacts facts;
  facts.experts = 8;
  check_units(
      {{"blk.0.ffn_gate_exps.weight", "f16[8, 14336, 4096]", "0: 8 expert"},
       {"blk.0.ffn_down_exps.bias", "f32[8, 4096]", "0: 8 expert"},
       {"blk.0.ffn_gate_shexp.weight", "f16[8, 64, 64]", ""},
       {"blk.0.ffn_gate_inp.weight", "f32[8, 4096]", ""}},
      facts);
}

TEST_CASE("experts form groups where routing chooses among them") {
  ModelFacts facts;
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

}  // namespace
}  // namespace shardplan
