// SPDX-License-Identifier: Apache-2.0
#include "evaluate/dequantised.h"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/placed.h"

namespace shardplan {
namespace {

using testing::first_message;
using testing::manifest;
using testing::placed;
using testing::rules;
using testing::spec;

const Manifest& plain() {
  static const Manifest kPlain =
      manifest({{"model.embed_tokens.weight", "bf16[64, 32]"},
                {"model.layers.0.mlp.up_proj.weight", "bf16[96, 32]"},
                {"model.layers.0.mlp.down_proj.weight", "bf16[32, 96]"}});
  return kPlain;
}

struct Packed {
  std::string up;  // what it is called
  std::string up_type;
  std::string rule;  // of `up`
  std::string made;  // the spec of the matrix; "": none
};

TEST_CASE("dequantised: a matrix is cut as what it is made of") {
  const std::vector<Packed> cases = {
      {"model.layers.0.mlp.up_proj.weight", "f8_e4m3[96, 32]", "tp, fsdp",
       "tp, fsdp"},
      {"model.layers.0.mlp.up_proj.weight", "i8[96, 32]", "tp, None",
       "tp, None"},
      // GPTQ: inputs, packed, before outputs.
      {"model.layers.0.mlp.up_proj.qweight", "i32[4, 96]", "fsdp, tp",
       "tp, fsdp"},
      {"model.layers.0.mlp.up_proj.qweight", "i32[32, 12]", "fsdp, tp",
       "tp, fsdp"},
      {"model.layers.0.mlp.up_proj.weight_packed", "i32[96, 4]", "tp, fsdp",
       "tp, fsdp"},
      // bitsandbytes: in one dimension, whatever the matrix is.
      {"model.layers.0.mlp.up_proj.weight", "u8[1536, 1]", "fsdp, None",
       "fsdp, None"},
      {"model.layers.0.mlp.up_proj.weight", "u8[1536, 1]", "tp, None", ""},
      // As PEFT calls it.
      {"base_model.model.model.layers.0.mlp.up_proj.base_layer.weight",
       "u8[1536, 1]", "fsdp, None", "fsdp, None"},
  };
  for (const Packed& each : cases) {
    CAPTURE(each.up);
    CAPTURE(each.rule);
    const Manifest stored =
        manifest({{"model.embed_tokens.weight", "bf16[64, 32]"},
                  {each.up, each.up_type},
                  {"model.layers.0.mlp.down_proj.weight", "bf16[32, 96]"},
                  {"model.layers.0.mlp.up_proj.lora_A.weight", "f32[2, 32]"},
                  {"model.layers.0.mlp.up_proj.weight_scale", "f32[96]"}});
    const Plan plan = placed(
        stored,
        rules({{"up_proj.*(.weight|qweight|_packed)$", each.rule}, {".", ""}}),
        "fsdp=2,tp=2");
    Diagnostics diags;
    const auto model = dequantised_model(
        stored, plain(), {true, true, true, false, true}, diags);
    REQUIRE_MESSAGE(model, first_message(diags));
    // In the order of the model; scales are no part of it, adapters are.
    REQUIRE(model->manifest.size() == 4);
    CHECK(model->manifest.type(1).shape == Shape{96, 32});
    CHECK(model->manifest.type(1).dtype == DType::BF16);
    CHECK(model->dequantised == std::vector<bool>{false, true, false, false});
    CHECK(model->frozen == std::vector<bool>{true, true, true, false});
    const auto made = dequantised_plan(*model, stored, plan, diags);
    if (each.made.empty()) {
      CHECK_FALSE(made);
      CHECK(first_message(diags).find("no shard of the unpacked matrix") !=
            std::string::npos);
      continue;
    }
    REQUIRE_MESSAGE(made, first_message(diags));
    CHECK(made->plan.of(1).spec == spec(each.made));
    // Gathered over fsdp before it is used.
    const bool cut = each.made.find("tp") != std::string::npos;
    CHECK(made->largest == (cut ? 96 * 32 / 2 : 96 * 32));
    // Scales are of the layer of their weight.
    CHECK(stored_layers(*model, stored, {-1, 0, 0, 0}) ==
          std::vector<int64_t>{-1, 0, 0, 0, 0});
  }
}

TEST_CASE("dequantised: what is trained, or cannot be found, is refused") {
  const Manifest stored =
      manifest({{"model.embed_tokens.weight", "bf16[64, 32]"},
                {"model.layers.0.mlp.up_proj.weight", "u8[1536, 1]"},
                {"model.layers.0.mlp.down_proj.weight", "bf16[32, 96]"},
                {"model.layers.0.mlp.up_proj.extra", "f32[96]"}});
  Diagnostics diags;
  CHECK_FALSE(dequantised_model(stored, plain(), {}, diags));
  CHECK(first_message(diags).find("training it is not modelled") !=
        std::string::npos);
  diags = {};
  CHECK_FALSE(
      dequantised_model(stored, plain(), {true, true, true, false}, diags));
  CHECK(first_message(diags).find("up_proj.extra` is trained") !=
        std::string::npos);
  diags = {};
  const Manifest less =
      manifest({{"model.embed_tokens.weight", "bf16[64, 32]"}});
  CHECK_FALSE(dequantised_model(less, plain(), {true}, diags));
  CHECK(first_message(diags).find("layers.0.mlp.up_proj.weight") !=
        std::string::npos);
}

TEST_CASE("dequantised: what cannot be the matrix, packed, is refused") {
  struct Stored {
    std::string type;  // of `up_proj`, a matrix of 96 x 32
    bool is_read;
  };
  const std::vector<Stored> cases = {
      {"u8[1536, 1]", true},    // 4 bits
      {"bf16[768, 1]", true},   // the same, as FSDP shards it
      {"u8[96, 4]", true},      // 1 bit
      {"i32[96, 8]", true},     // 8 bits
      {"u8[]", false},          // nothing says of what
      {"u8[0]", false},         //
      {"u8[7, 1]", false},      // too few
      {"u8[383, 1]", false},    //
      {"u8[3080, 1]", false},   // too many
      {"u8[64, 24]", false},    // 4 bits, of another matrix
      {"bf16[128, 32]", false}  // another vocabulary, or other experts
  };
  for (const Stored& each : cases) {
    CAPTURE(each.type);
    const Manifest stored =
        manifest({{"model.embed_tokens.weight", "bf16[64, 32]"},
                  {"model.layers.0.mlp.up_proj.weight", each.type},
                  {"model.layers.0.mlp.down_proj.weight", "i8[32, 96]"}});
    Diagnostics diags;
    const auto model =
        dequantised_model(stored, plain(), {true, true, true}, diags);
    CHECK(model.has_value() == each.is_read);
    if (each.is_read) continue;
    CHECK(first_message(diags).find("up_proj.weight` is stored as") !=
          std::string::npos);
  }
  // A scalar of the config is not packed.
  Diagnostics diags;
  CHECK_FALSE(dequantised_model(manifest({{"model.scale", "u8[2]"}}),
                                manifest({{"model.scale", "f32[]"}}), {true},
                                diags));
}

}  // namespace
}  // namespace shardplan
