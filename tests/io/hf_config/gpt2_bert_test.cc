// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::has_tensor;
using testing::Json;
using testing::sample_config;
using testing::synthesize;
using testing::type_of;
using testing::without;

TEST_CASE("the causal masks are f32 buffers, whatever the weights are") {
  const auto result =
      synthesize(changed(sample_config("gpt2"), {{"torch_dtype", "float16"}}));
  const Manifest& manifest = result->good();
  CHECK(manifest.size() == 148);
  CHECK(manifest.total_elements() == 124'439'808);
  CHECK(manifest.total_bytes() == 2 * manifest.total_elements());
  REQUIRE(manifest.buffers().size() == 12);
  for (const auto& buffer : manifest.buffers()) {
    CHECK(buffer.type == TensorType{DType::F32, {1, 1, 1024, 1024}});
    CHECK(is_known_buffer(buffer.name, buffer.type));
  }
  CHECK(manifest.total_elements() + manifest.buffer_elements() == 137'022'720);
}

TEST_CASE("Conv1D weights are stored in by out") {
  const auto result = synthesize(sample_config("gpt2"));
  CHECK(type_of(result->good(), "h.11.attn.c_attn.weight").shape ==
        Shape{768, 2304});
  CHECK(type_of(result->good(), "h.11.mlp.c_proj.weight").shape ==
        Shape{3072, 768});
  CHECK_FALSE(has_tensor(result->good(), "lm_head.weight"));
}

TEST_CASE("n_inner counts unless it is null") {
  const Json config = sample_config("gpt2");
  const auto inner = [](const Json& changed_config) {
    return type_of(synthesize(changed_config)->good(), "h.0.mlp.c_fc.weight")
        .shape;
  };
  CHECK(inner(changed(config, {{"n_inner", nullptr}})) == Shape{768, 3072});
  CHECK(inner(changed(config, {{"n_inner", 100}})) == Shape{768, 100});
}

TEST_CASE("a gpt2 whose names are uncertain is refused") {
  const Json config = sample_config("gpt2");
  CHECK(synthesize(changed(config, {{"tie_word_embeddings", false}}))
            ->problem() ==
        "SP009 a `gpt2` whose head is not its embedding is not known");
  CHECK(
      synthesize(changed(config, {{"add_cross_attention", true}}))->problem() ==
      "SP009 cross attention is not known");
  CHECK(synthesize(without(config, "n_embd"))->problem() ==
        "SP009 `n_embd` is missing");
}

using testing::small_config;

TEST_CASE("the architecture tells the bare encoder from the one with a head") {
  const auto bare = synthesize(small_config("bert"));
  CHECK(has_tensor(bare->good(), "pooler.dense.weight"));
  CHECK_FALSE(has_tensor(bare->good(), "cls.predictions.bias"));
  const auto head = synthesize(small_config("bert-masked-lm"));
  CHECK(has_tensor(head->good(), "cls.predictions.bias"));
  CHECK(has_tensor(head->good(), "bert.encoder.layer.1.output.dense.weight"));
  CHECK_FALSE(has_tensor(head->good(), "bert.pooler.dense.weight"));
  // Without one it is the encoder.
  const auto none = synthesize(without(small_config("bert"), "architectures"));
  CHECK(has_tensor(none->good(), "pooler.dense.weight"));
  CHECK(type_of(none->good(), "embeddings.token_type_embeddings.weight")
            .shape[0] == 2);
}

TEST_CASE("what a bert cannot be is refused") {
  const auto problem = [](const testing::Json& changes) {
    return synthesize(changed(small_config("bert"), changes))->problem();
  };
  CHECK(problem({{"architectures", {"BertForTokenClassification"}}}) ==
        "SP009 architecture `BertForTokenClassification` is not known");
  CHECK(problem({{"tie_word_embeddings", false}}) ==
        "SP009 a `bert` whose head is not its embedding is not known");
  CHECK(problem({{"add_cross_attention", true}}) ==
        "SP009 cross attention is not known");
}

}  // namespace

}  // namespace shardplan
