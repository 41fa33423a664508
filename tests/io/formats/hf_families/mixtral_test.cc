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

TEST_CASE("each expert has w1 and w3 in, w2 out, and a row of the gate") {
  const auto result = synthesize(sample_config("mixtral-8x7b"));
  const Manifest& manifest = result->good();
  const std::string at = "model.layers.31.block_sparse_moe.";
  const TensorType in{DType::BF16, {14'336, 4096}};
  const TensorType out{DType::BF16, {4096, 14'336}};
  CHECK(type_of(manifest, at + "gate.weight") ==
        TensorType{DType::BF16, {8, 4096}});
  CHECK(type_of(manifest, at + "experts.7.w1.weight") == in);
  CHECK(type_of(manifest, at + "experts.7.w2.weight") == out);
  CHECK(type_of(manifest, at + "experts.7.w3.weight") == in);
  CHECK_FALSE(has_tensor(manifest, at + "experts.8.w1.weight"));
  CHECK_FALSE(has_tensor(manifest, "model.layers.31.mlp.up_proj.weight"));
}

TEST_CASE("a mixtral without a number of experts is refused") {
  const Json config = sample_config("mixtral-8x7b");
  CHECK(synthesize(without(config, "num_local_experts"))->problem() ==
        "SP009 `num_local_experts` is missing");
  CHECK(synthesize(changed(config, {{"num_local_experts", 0}}))->problem() ==
        "SP009 `num_local_experts` is 0");
}

TEST_CASE("more experts than any model has are refused without making them") {
  const auto result = synthesize(changed(
      sample_config("mixtral-8x7b"),
      {{"num_local_experts", 100'000}, {"num_hidden_layers", 100'000}}));
  CHECK(result->problem() == "SP009 the model would have too many tensors");
}

}  // namespace
}  // namespace shardplan
