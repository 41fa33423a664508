// SPDX-License-Identifier: Apache-2.0
#include "model/quant_scales.h"

#include <doctest/doctest.h>

#include "io/load.h"
#include "tests/support/builders.h"
#include "tests/support/linted.h"
#include "tests/support/memory_host.h"
#include "tests/support/safetensors.h"
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::manifest;

// The blocks of every tensor, an entry each.
std::string quant_blocks_text(const Manifest& model) {
  const QuantBlocksByName known = quant_blocks(model, fold_by_type(model));
  std::string text;
  for (size_t i = 0; i < model.size(); ++i) {
    const QuantBlocks* blocks =
        find_blocks(known, model.name(i), model.type(i).shape);
    if (blocks == nullptr) continue;
    text += (text.empty() ? "" : "; ") + std::string(model.name(i)) + " " +
            shape_text(blocks->blocks);
  }
  return text;
}

TEST_CASE("scales beside a weight tell its blocks") {
  CHECK(quant_blocks_text(manifest({{"up.weight", "f8_e4m3fn[768, 7168]"},
                                    {"up.weight_scale_inv", "f32[6, 56]"}})) ==
        "up.weight [128, 128]");
  // A scale per row, and one for all: no block.
  CHECK(quant_blocks_text(manifest({{"up.weight", "f8_e4m3fn[768, 256]"},
                                    {"up.weight_scale", "f32[768, 1]"}})) ==
        "up.weight [1, 1]");
  CHECK(quant_blocks_text(manifest({{"up.weight", "f8_e4m3fn[768, 256]"},
                                    {"up.weight_scale", "f32[]"}})) == "");
  // NVFP4 holds two numbers in a byte, 16 share a scale; MLX eight in a word,
  // 64 share one; compressed-tensors eight, 32 share one.
  CHECK(quant_blocks_text(manifest({{"up.weight", "u8[64, 128]"},
                                    {"up.weight_scale", "f8_e4m3fn[64, 16]"},
                                    {"up.weight_scale_2", "f32[]"}})) ==
        "up.weight [1, 8]");
  CHECK(quant_blocks_text(manifest({{"up.weight", "u32[64, 128]"},
                                    {"up.scales", "bf16[64, 16]"},
                                    {"up.biases", "bf16[64, 16]"}})) ==
        "up.weight [1, 8]");
  CHECK(quant_blocks_text(manifest({{"up.weight_packed", "i32[64, 128]"},
                                    {"up.weight_scale", "bf16[64, 32]"},
                                    {"up.weight_shape", "i64[2]"}})) ==
        "up.weight_packed [1, 4]");
  // Stacked experts.
  CHECK(
      quant_blocks_text(manifest({{"experts.up", "f8_e4m3[8, 256, 384]"},
                                  {"experts.up_scale_inv", "f32[8, 2, 3]"}})) ==
      "experts.up [1, 128, 128]");
}

TEST_CASE("AWQ and GPTQ tell groups of rows, and columns that are packed") {
  // AWQ packs eight columns, GPTQ eight rows of 128 x 8 = 1,024.
  CHECK(quant_blocks_text(manifest({{"up.qweight", "i32[1024, 96]"},
                                    {"up.qzeros", "i32[8, 96]"},
                                    {"up.scales", "f16[8, 768]"}})) ==
        "up.qweight [128, 1]; up.scales [1, 8]");
  CHECK(quant_blocks_text(manifest({{"up.g_idx", "i32[1024]"},
                                    {"up.qweight", "i32[128, 768]"},
                                    {"up.qzeros", "i32[8, 96]"},
                                    {"up.scales", "f16[8, 768]"}})) ==
        "up.g_idx [128]; up.qweight [16, 1]; up.scales [1, 8]");
  // One group of all rows.
  CHECK(quant_blocks_text(manifest(
            {{"up.qweight", "i32[128, 768]"}, {"up.scales", "f16[1, 768]"}})) ==
        "up.qweight [1, 1]");
}

TEST_CASE("blocks that no shape shows alone are inferred from all together") {
  // 200 rows with 2 scales: blocks of 100, if no other tensor said 128; 576 are
  // four blocks and a half; 64 are less than one.
  CHECK(quant_blocks_text(manifest({{"a.weight", "f8_e4m3fn[200, 128]"},
                                    {"a.weight_scale_inv", "f32[2, 1]"},
                                    {"b.weight", "f8_e4m3fn[576, 1024]"},
                                    {"b.weight_scale_inv", "f32[5, 8]"},
                                    {"c.weight", "f8_e4m3fn[64, 1024]"},
                                    {"c.weight_scale_inv", "f32[1, 8]"}})) ==
        "a.weight [128, 128]; b.weight [128, 128]; c.weight [128, 128]");
  // 96 is not a power of two, and all agree on it.
  CHECK(quant_blocks_text(manifest({{"a.weight", "f8_e4m3fn[192, 960]"},
                                    {"a.weight_scale_inv", "f32[2, 10]"},
                                    {"b.weight", "f8_e4m3fn[960, 96]"},
                                    {"b.weight_scale_inv", "f32[10, 1]"}})) ==
        "a.weight [96, 96]; b.weight [96, 96]");
  // No block is all of these: each has its own.
  CHECK(quant_blocks_text(manifest({{"a.weight", "f8_e4m3fn[256, 256]"},
                                    {"a.weight_scale_inv", "f32[2, 2]"},
                                    {"b.weight", "f8_e4m3fn[256, 256]"},
                                    {"b.weight_scale_inv", "f32[8, 8]"}})) ==
        "a.weight [128, 128]; b.weight [32, 32]");
}

TEST_CASE("layers are alike; where they are not, the larger block holds") {
  CHECK(quant_blocks_text(
            manifest({{"layers.0.up.weight", "f8_e4m3fn[256, 256]"},
                      {"layers.0.up.weight_scale_inv", "f32[8, 8]"},
                      {"layers.1.up.weight", "f8_e4m3fn[256, 256]"},
                      {"layers.1.up.weight_scale_inv", "f32[2, 2]"}})) ==
        "layers.0.up.weight [128, 128]; layers.1.up.weight [128, 128]");
}

TEST_CASE(
    "nothing is claimed of what is not a quantised weight with its scales") {
  CHECK(quant_blocks_text(manifest({{"up.weight", "f8_e4m3fn[768, 7168]"}})) ==
        "");
  CHECK(quant_blocks_text(manifest({{"up.weight", "bf16[768, 7168]"},
                                    {"up.weight_scale", "f32[6, 56]"}})) == "");
  CHECK(quant_blocks_text(
            manifest({{"norm/scale", "f32[8]"}, {"ids", "i32[8]"}})) == "");
  // More scales than rows, none at all, and another rank.
  CHECK(quant_blocks_text(manifest({{"up.weight", "f8_e4m3fn[4, 4]"},
                                    {"up.weight_scale", "f32[8, 0]"}})) == "");
  CHECK(quant_blocks_text(manifest({{"up.weight", "f8_e4m3fn[4, 4]"},
                                    {"up.weight_scale", "f32[2]"}})) == "");
  CHECK(quant_blocks_text(
            manifest({{"up.g_idx", "i32[8]"}, {"up.scales", "f16[]"}})) == "");
}

// The headers alone said "No problems".
TEST_CASE("safetensors without a config: a cut block is an error") {
  testing::MemoryHost host;
  host.files["m.safetensors"] =
      testing::safetensors({{"up_proj.weight", "F8_E4M3", {768, 256}},
                            {"up_proj.weight_scale_inv", "F32", {6, 2}}});
  Diagnostics diags;
  const auto model = load_manifest("m.safetensors", host, diags);
  REQUIRE(model.has_value());
  const auto cut = [&](const char* mesh) {
    return testing::lint_of(*model, testing::rules({{"", "tp"}}), mesh)
        .find(Code::SplitUnit);
  };
  const auto found = cut("tp=4");
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::Error);
  CHECK(
      found[0].facts.back() ==
      "`up_proj.weight_scale_inv` [6, 2] implies blocks of 128 in dimension 0");
  CHECK(cut("tp=3").empty());
  CHECK(cut("fsdp=4,tp=1").empty());
}

}  // namespace

}  // namespace shardplan
