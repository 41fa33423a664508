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

TEST_CASE("gemma ties its head unless the config says otherwise") {
  const Json config = sample_config("gemma-2-9b");
  CHECK_FALSE(has_tensor(synthesize(config)->good(), "lm_head.weight"));
  CHECK(has_tensor(
      synthesize(changed(config, {{"tie_word_embeddings", false}}))->good(),
      "lm_head.weight"));
}

TEST_CASE("gemma2 and gemma3 differ in the norms of the heads") {
  const std::string norm = "model.layers.0.self_attn.q_norm.weight";
  CHECK_FALSE(has_tensor(synthesize(small_config("gemma2"))->good(), norm));
  CHECK(type_of(synthesize(sample_config("gemma-3-1b"))->good(), norm) ==
        TensorType{DType::BF16, {256}});
}

TEST_CASE("the class's heads serve gemma3 alone") {
  const Json three =
      without(small_config("gemma3_text"), "num_attention_heads");
  CHECK(type_of(synthesize(three)->good(),
                "model.layers.0.self_attn.q_proj.weight")
            .shape == Shape{2048, 32});
  const Json two = without(small_config("gemma2"), "num_attention_heads");
  CHECK(synthesize(two)->problem() == "SP009 `num_attention_heads` is missing");
}

TEST_CASE("gemma3 with vision names both towers as the Hub does") {
  const auto result = synthesize(sample_config("gemma-3-4b"));
  const Manifest& manifest = result->good();
  CHECK(type_of(manifest, "language_model.model.embed_tokens.weight").shape ==
        Shape{262'208, 2560});
  CHECK(type_of(manifest,
                "vision_tower.vision_model.embeddings.position_embedding"
                ".weight")
            .shape == Shape{4096, 1152});
  CHECK(type_of(manifest, "multi_modal_projector.mm_input_projection_weight")
            .shape == Shape{1152, 2560});
  CHECK(manifest.size() == 883);
  const auto untied = synthesize(
      changed(sample_config("gemma-3-4b"), {{"tie_word_embeddings", false}}));
  CHECK(has_tensor(untied->good(), "language_model.lm_head.weight"));
}

TEST_CASE("a gemma3 that is not what the Hub has is refused") {
  const Json config = small_config("gemma3");
  CHECK(synthesize(without(config, "vision_config"))->problem() ==
        "SP009 `vision_config` is missing");
  CHECK(synthesize(without(config, "text_config"))->problem() ==
        "SP009 `text_config` is missing");
  Json pooled = config;
  pooled["vision_config"]["vision_use_head"] = true;
  CHECK(synthesize(pooled)->problem() ==
        "SP009 a vision tower with a pooling head is not known");
  Json broken = config;
  broken["text_config"].erase("hidden_size");
  CHECK(synthesize(broken)->problem() ==
        "SP009 `text_config.hidden_size` is missing");
}

}  // namespace
}  // namespace shardplan
