// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::sample_config;
using testing::small_config;
using testing::synthesize;
using testing::type_of;
using testing::without;

TEST_CASE("MXFP4 experts are blocks of bytes and scales, with bf16 biases") {
  const auto result = synthesize(sample_config("gpt-oss-20b"));
  const Manifest& manifest = result->good();
  const std::string at = "model.layers.23.mlp.experts.";
  CHECK(type_of(manifest, at + "gate_up_proj_blocks") ==
        TensorType{DType::U8, {32, 5760, 90, 16}});
  CHECK(type_of(manifest, at + "gate_up_proj_scales") ==
        TensorType{DType::U8, {32, 5760, 90}});
  CHECK(type_of(manifest, at + "gate_up_proj_bias") ==
        TensorType{DType::BF16, {32, 5760}});
  CHECK(type_of(manifest, at + "down_proj_blocks") ==
        TensorType{DType::U8, {32, 2880, 90, 16}});
  CHECK(manifest.buffers().empty());
}

TEST_CASE("everything but the experts is bf16, as the Hub counts it") {
  const auto result = synthesize(sample_config("gpt-oss-20b"));
  const Manifest& manifest = result->good();
  int64_t bf16 = 0;
  int64_t u8 = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    (type.dtype == DType::BF16 ? bf16 : u8) += type.elements();
  }
  CHECK(bf16 == 1'804'459'584);
  CHECK(u8 == 9'555'148'800 + 597'196'800);
}

TEST_CASE("without quantisation experts are stored in by out") {
  const Json config =
      changed(without(sample_config("gpt-oss-20b"), "quantization_config"),
              {{"torch_dtype", "bfloat16"}});
  const auto result = synthesize(config);
  const Manifest& manifest = result->good();
  CHECK(type_of(manifest, "model.layers.0.mlp.experts.gate_up_proj") ==
        TensorType{DType::BF16, {32, 2880, 5760}});
  CHECK(manifest.total_elements() == 20'914'757'184);
}

TEST_CASE("a quantisation that the config does not settle is refused") {
  const Json config = small_config("gpt_oss-mxfp4");
  Json kept = config;
  kept["quantization_config"]["modules_to_not_convert"] = {
      "lm_head", "model.layers.0.mlp.experts"};
  CHECK(synthesize(kept)->problem() ==
        "SP009 experts that are kept from MXFP4 are not known");
  CHECK(synthesize(changed(config, {{"intermediate_size", 48}}))->problem() ==
        "SP009 sizes are not a multiple of an MXFP4 block of 32");
  Json fp8 = config;
  fp8["quantization_config"]["quant_method"] = "fp8";
  CHECK(synthesize(fp8)->problem() ==
        "SP009 the config is quantised with `fp8`");
}

}  // namespace
}  // namespace shardplan
