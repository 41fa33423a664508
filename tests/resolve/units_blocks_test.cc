// SPDX-License-Identifier: Apache-2.0
// src/resolve/units_blocks.cc
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::check_units;

ModelFacts blocks(int64_t rows, int64_t columns) {
  ModelFacts facts;
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
  ModelFacts columns;
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

}  // namespace
}  // namespace shardplan
