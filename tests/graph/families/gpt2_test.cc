// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "graph/families/families.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Stacking;
using testing::tiny_model;
using testing::whole_model;

TEST_CASE("gpt2: sharded is unsharded") {
  auto [manifest, config] = tiny_model("gpt2");
  const auto model = whole_model(manifest, config, {2, 4, 1, {}});
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK(testing::disagreements(*model, "@gpt2") == "");
}

TEST_CASE("gpt2: Conv1D is the other way round in either scheme of names") {
  auto [manifest, config] = tiny_model("gpt2");
  const auto model = whole_model(manifest, config);
  REQUIRE(model->graph);
  for (const Stacking stacking : {Stacking::None, Stacking::Layers}) {
    CHECK(testing::largest_difference(
              *model, testing::flax_names(manifest, stacking)) < 1e-5);
  }
}

TEST_CASE("gpt2: without the prefix of its modules") {
  auto [manifest, config] = tiny_model("gpt2");
  Manifest bare;
  for (size_t i = 0; i < manifest.size(); ++i) {
    std::string name(manifest.name(i));
    const std::string prefix = "transformer.";
    if (name.rfind(prefix, 0) == 0) name.erase(0, prefix.size());
    REQUIRE(bare.add(name, manifest.type(i), {}));
  }
  bare.facts = manifest.facts;
  const auto model = whole_model(bare, config);
  CHECK_MESSAGE(model->graph, model->messages);
}

TEST_CASE("gpt2: no more tokens than positions") {
  auto [manifest, config] = tiny_model("gpt2");
  CHECK(whole_model(manifest, config, {2, 12, {}, {}})->graph);
  const auto model = whole_model(manifest, config, {2, 13, {}, {}});
  CHECK(model->messages == "SP009 the model has 12 positions, for 13 tokens");
}

TEST_CASE("gpt2: heads must cover the hidden size") {
  auto [manifest, config] = tiny_model("gpt2");
  config.head_dim = 8;
  const auto model = whole_model(manifest, config);
  CHECK(model->messages ==
        "SP009 heads of a `gpt2` are as wide as its hidden size together");
}

}  // namespace
}  // namespace shardplan
