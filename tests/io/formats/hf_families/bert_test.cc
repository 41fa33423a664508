// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::has_tensor;
using testing::small_config;
using testing::synthesize;
using testing::type_of;
using testing::without;

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
