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

std::string kinds(const Json& changes) {
  const auto result =
      synthesize(changed(small_config("qwen3_moe-some-dense"), changes));
  std::string found;
  for (int layer = 0; layer < 6; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".mlp.";
    const bool moe = has_tensor(result->good(), at + "gate.weight");
    const bool dense = has_tensor(result->good(), at + "up_proj.weight");
    CHECK(moe != dense);
    found += moe ? 'e' : 'd';
  }
  return found;
}

TEST_CASE("the step and the list of dense layers say which have experts") {
  CHECK(kinds(Json::object()) == "deddde");
  CHECK(kinds({{"mlp_only_layers", Json::array()}}) == "dedede");
  CHECK(kinds({{"mlp_only_layers", nullptr}}) == "dedede");
  CHECK(kinds({{"decoder_sparse_step", 3}}) == "ddedde");
  CHECK(kinds({{"decoder_sparse_step", 1}, {"mlp_only_layers", {0, 5, 9}}}) ==
        "deeeed");
  CHECK(kinds({{"num_experts", 0}}) == "dddddd");
}

TEST_CASE("experts have a size of their own") {
  const auto result = synthesize(sample_config("qwen3-30b-a3b"));
  CHECK(type_of(result->good(),
                "model.layers.47.mlp.experts.127.down_proj.weight") ==
        TensorType{DType::BF16, {2048, 768}});
  CHECK(synthesize(
            without(sample_config("qwen3-30b-a3b"), "moe_intermediate_size"))
            ->problem() == "SP009 `moe_intermediate_size` is missing");
}

TEST_CASE("null is no number of KV heads for qwen3_moe") {
  CHECK(synthesize(changed(small_config("qwen3_moe"),
                           {{"num_key_value_heads", nullptr}}))
            ->problem() == "SP009 `num_key_value_heads` is null");
}

}  // namespace
}  // namespace shardplan
