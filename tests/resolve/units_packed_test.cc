// SPDX-License-Identifier: Apache-2.0
// src/resolve/units_packed.cc
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::check_units;
using testing::manifest;

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

TEST_CASE("gpt-oss alternates gate and up, and is told by its biases") {
  const std::string at = "model.layers.0.mlp.experts.";
  ModelFacts facts;
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
