// SPDX-License-Identifier: Apache-2.0
// Weights on a rank of an engine, counted by hand.
#include "serve/weights.h"

#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/serve/models.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::served_deepseek;
using testing::served_llama;
using testing::served_mixtral;
using testing::synthesize;

RankWeights weights_of(const Json& config, const EngineMesh& mesh,
                       int64_t multiple = 64) {
  const auto made = synthesize(config);
  const Model of(made->good());
  const auto model = served_weights(of);
  REQUIRE(model);
  WeightsInput input;
  input.layout = layout_of(*find_engine("vllm"), mesh);
  input.vocab_multiple = multiple;
  const std::vector<bool> all(model->groups.groups.size(), true);
  const auto weights = rank_weights(*model, all, input);
  REQUIRE(weights);
  return *weights;
}

int64_t part(const RankWeights& weights, WeightPart of) {
  return weights.bytes[static_cast<size_t>(of)];
}

}  // namespace

TEST_CASE("one rank has the model, with the vocabulary padded") {
  const auto made = synthesize(served_llama());
  const int64_t stored = made->good().total_bytes();
  const RankWeights weights = weights_of(served_llama(), {});
  // 24 rows more of the embedding and of the head.
  CHECK(weights.vocab_padding == 2 * 24 * 256 * 2);
  CHECK(weights.total == stored + weights.vocab_padding);
  CHECK(weights.kv_copies == 0);
  CHECK(weights_of(served_llama(), {}, 1).total == stored);
}

TEST_CASE("heads, MLP and vocabulary are cut, KV heads kept whole") {
  const RankWeights w = weights_of(served_llama(), {.tp = 4});
  CHECK(part(w, WeightPart::Vocabulary) == 2 * 256 * 256 * 2);
  CHECK(w.vocab_padding == 2 * 6 * 256 * 2);
  // q and o of two heads; k and v of one KV head, which two ranks have.
  CHECK(part(w, WeightPart::Attention) ==
        2 * (2 * 64 * 256 * 2 + 2 * 32 * 256 * 2));
  CHECK(w.kv_copies == 2 * 2 * 16 * 256 * 2);
  CHECK(part(w, WeightPart::Dense) == 2 * 3 * 128 * 256 * 2);
  CHECK(part(w, WeightPart::Whole) == 5 * 256 * 2);
  CHECK(w.total == 854528);
}

TEST_CASE("experts are cut, or dealt out") {
  constexpr int64_t kExpert = 3 * 512 * 256 * 2;
  const RankWeights cut = weights_of(served_mixtral(), {.tp = 2});
  const RankWeights dealt =
      weights_of(served_mixtral(), {.tp = 2, .expert_parallel = true});
  CHECK(part(cut, WeightPart::Experts) == 2 * 4 * kExpert / 2);
  CHECK(part(dealt, WeightPart::Experts) == 2 * 2 * kExpert);
  // The fullest of three ranks has two of four.
  const RankWeights uneven =
      weights_of(served_mixtral(), {.dp = 3, .expert_parallel = true});
  CHECK(part(uneven, WeightPart::Experts) == 2 * 2 * kExpert);
  // All that is not of experts is as before.
  CHECK(part(cut, WeightPart::Attention) == part(dealt, WeightPart::Attention));
}

TEST_CASE("a tied head is there once, and another dtype counts") {
  const Json tied = changed(served_llama(), {{"tie_word_embeddings", true}});
  CHECK(part(weights_of(tied, {}), WeightPart::Vocabulary) == 1024 * 256 * 2);
  const auto made = synthesize(served_llama());
  const Model of(made->good());
  const auto model = served_weights(of);
  REQUIRE(model);
  WeightsInput input;
  input.dtype = DType::F32;
  const auto wide = rank_weights(
      *model, std::vector<bool>(model->groups.groups.size(), true), input);
  REQUIRE(wide);
  CHECK(wide->total == 2 * made->good().total_bytes());
}

TEST_CASE("latents are whole on every rank, and their projection twice") {
  const RankWeights w = weights_of(served_deepseek(), {.tp = 4});
  // kv_b of two heads: 2 * (32 + 32) rows of 128, in each of three layers.
  CHECK(part(w, WeightPart::Absorbed) == 3 * 2 * 64 * 128 * 2);
  CHECK(weights_of(served_deepseek(), {}).kv_copies == 0);
}

TEST_CASE("without labels nothing is said") {
  Manifest manifest;
  REQUIRE(manifest.add("w", {DType::F32, {4, 4}}, {}));
  CHECK_FALSE(served_weights(Model(manifest)));
}

TEST_CASE("labels have roles") {
  CHECK(role_of_label("kv_heads", false) == DimRole::KvHeads);
  CHECK(role_of_label("sliding_kv_heads", false) == DimRole::KvHeads);
  CHECK(role_of_label("value_heads", false) == DimRole::Heads);
  CHECK(role_of_label("index_heads", false) == DimRole::Whole);
  CHECK(role_of_label("mlp", false) == DimRole::Dense);
  CHECK(role_of_label("mlp", true) == DimRole::Width);
  CHECK(role_of_label("vision.mlp", false) == DimRole::Dense);
  CHECK(role_of_label("norm", false) == DimRole::Whole);
  CHECK(role_of_label("kv_rank", false) == DimRole::Whole);
}

}  // namespace shardplan
