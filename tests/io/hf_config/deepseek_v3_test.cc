// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::has_tensor;
using testing::Json;
using testing::sample_config;
using testing::small_config;
using testing::synthesize;
using testing::type_of;
using testing::without;

TEST_CASE("DeepSeek-V3 has the sizes that the Hub counts, per dtype") {
  const auto result = synthesize(sample_config("deepseek-v3"));
  const Manifest& manifest = result->good();
  int64_t f8 = 0;
  int64_t bf16 = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorType& type = manifest.type(i);
    (type.dtype == DType::BF16 ? bf16 : f8) += type.elements();
  }
  CHECK(f8 == 680'571'043'840);
  CHECK(bf16 == 3'918'786'560);
  CHECK(manifest.buffer_elements() == 41'555'600);  // f32
  CHECK(manifest.buffer_bytes() == 4 * 41'555'600);
  int64_t corrections = 0;
  for (const auto& buffer : manifest.buffers()) {
    CHECK(is_known_buffer(buffer.name, buffer.type));
    if (buffer.name.ends_with("bias")) corrections += buffer.type.elements();
  }
  CHECK(corrections == 59 * 256);
  CHECK(manifest.total_elements() + corrections == 684'489'845'504);
}

TEST_CASE("without FP8 and MTP the parameters are those of the main model") {
  const Json config =
      changed(without(sample_config("deepseek-v3"), "quantization_config"),
              {{"num_nextn_predict_layers", 0}});
  const auto result = synthesize(config);
  CHECK(result->good().total_elements() == 671'026'404'352);
  CHECK(result->good().total_bytes() == 2 * 671'026'404'352);
  CHECK(result->good().buffer_elements() == 14'848);
  CHECK_FALSE(has_tensor(result->good(), "model.layers.61.eh_proj.weight"));
}

TEST_CASE("an MTP layer follows the last, with its own embedding and head") {
  const auto result = synthesize(sample_config("deepseek-v3"));
  const Manifest& manifest = result->good();
  const std::string at = "model.layers.61.";
  const auto bf16 = [](Shape shape) {
    return TensorType{DType::BF16, std::move(shape)};
  };
  CHECK(type_of(manifest, at + "embed_tokens.weight") == bf16({129'280, 7168}));
  CHECK(type_of(manifest, at + "enorm.weight") == bf16({7168}));
  CHECK(type_of(manifest, at + "hnorm.weight") == bf16({7168}));
  CHECK(type_of(manifest, at + "eh_proj.weight") == bf16({7168, 14'336}));
  CHECK(type_of(manifest, at + "shared_head.norm.weight") == bf16({7168}));
  CHECK(type_of(manifest, at + "shared_head.head.weight") ==
        bf16({129'280, 7168}));
  CHECK(has_tensor(manifest, at + "mlp.experts.255.up_proj.weight"));
  CHECK_FALSE(has_tensor(manifest, "model.layers.62.enorm.weight"));
}

std::string deepseek_kinds(const Json& changes) {
  const auto result = synthesize(
      changed(changed(small_config("deepseek_v3"), {{"num_hidden_layers", 4}}),
              changes));
  std::string found;
  for (int layer = 0; layer < 4; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".mlp.";
    found += has_tensor(result->good(), at + "gate.weight") ? 'e' : 'd';
  }
  return found;
}

TEST_CASE("dense layers come first, then experts at their step") {
  CHECK(deepseek_kinds({{"first_k_dense_replace", 1}}) == "deee");
  CHECK(deepseek_kinds({{"first_k_dense_replace", 0}}) == "eeee");
  CHECK(deepseek_kinds({{"first_k_dense_replace", 4}}) == "dddd");
  CHECK(deepseek_kinds({{"first_k_dense_replace", 1}, {"moe_layer_freq", 2}}) ==
        "dded");
  CHECK(deepseek_kinds({{"n_routed_experts", nullptr}}) == "dddd");
}

TEST_CASE("shared experts and corrections may be missing") {
  const Json config = small_config("deepseek_v3");
  const std::string at = "model.layers.1.mlp.";
  CHECK(
      type_of(synthesize(config)->good(), at + "shared_experts.up_proj.weight")
          .shape == Shape{32, 32});
  const auto plain = synthesize(changed(
      config, {{"n_shared_experts", nullptr}, {"topk_method", "greedy"}}));
  CHECK_FALSE(has_tensor(plain->good(), at + "shared_experts.up_proj.weight"));
  CHECK_FALSE(has_tensor(plain->good(), at + "gate.e_score_correction_bias"));
  CHECK(has_tensor(
      synthesize(changed(config, {{"topk_method", "noaux_tc"}}))->good(),
      at + "gate.e_score_correction_bias"));
}

TEST_CASE("q without a latent is projected in one step") {
  const auto result = synthesize(
      changed(small_config("deepseek_v3"), {{"q_lora_rank", nullptr}}));
  CHECK(
      type_of(result->good(), "model.layers.0.self_attn.q_proj.weight").shape ==
      Shape{40, 32});
  CHECK_FALSE(
      has_tensor(result->good(), "model.layers.0.self_attn.q_b_proj.weight"));
}

TEST_CASE("FP8 that the config does not settle is refused") {
  struct Row {
    const char* key;
    Json value;
    const char* problem;
  };
  const Row rows[] = {
      {"fmt", "e5m2", "SP009 only the FP8 format `e4m3` is supported"},
      {"modules_to_not_convert", "lm_head",
       "SP002 `quantization_config.modules_to_not_convert` must be a list, not "
       "a string"},
      {"weight_block_size",
       {128},
       "SP009 `weight_block_size` must be two positive sizes"},
      {"weight_block_size",
       {0, 128},
       "SP009 `weight_block_size` must be two positive sizes"},
      {"weight_block_size", nullptr,
       "SP009 `weight_block_size` must be two positive sizes"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.key);
    Json config = small_config("deepseek_v3-fp8");
    config["quantization_config"][row.key] = row.value;
    CHECK(synthesize(config)->problem() == row.problem);
  }
}

}  // namespace

}  // namespace shardplan
