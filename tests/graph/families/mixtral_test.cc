// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "graph/families/families.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::disagreements;
using testing::Stacking;
using testing::tiny_model;
using testing::whole_model;

TEST_CASE("mixtral: sharded is unsharded, experts apart or stacked") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto apart = whole_model(manifest, config, {4, 4, 1, {}});
  REQUIRE_MESSAGE(apart->graph, apart->messages);
  CHECK(disagreements(*apart, "@mixtral") == "");
  const auto names = testing::flax_names(manifest, Stacking::Experts);
  const auto stacked = whole_model(names.manifest, config, {4, 4, 1, {}});
  REQUIRE_MESSAGE(stacked->graph, stacked->messages);
  const auto run =
      testing::simulated(*stacked, "@mixtral", "ep=4", ValueSource::Random);
  REQUIRE(run.simulation);
  CHECK_FALSE(run.simulation->mismatch);
  CHECK(apart->ops().find("concatenate") != std::string::npos);
  CHECK(stacked->ops().find("concatenate") == std::string::npos);
}

TEST_CASE("mixtral: any scheme of names gives the same outputs") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto model = whole_model(manifest, config);
  REQUIRE(model->graph);
  for (const Stacking stacking :
       {Stacking::None, Stacking::Layers, Stacking::Experts,
        Stacking::LayersAndExperts}) {
    CHECK(testing::largest_difference(
              *model, testing::flax_names(manifest, stacking)) < 1e-5);
  }
}

TEST_CASE("mixtral: experts on devices of ep give parts of one sum") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto names = testing::flax_names(manifest, Stacking::Experts);
  const auto model = whole_model(names.manifest, config);
  const auto run =
      testing::simulated(*model, "@mixtral", "ep=2,tp=2", ValueSource::Field);
  REQUIRE(run.simulation);
  CHECK(run.moves.find(
            "all-reduce over (ep, tp) of layers.0.mlp.output (partial sum)") !=
        std::string::npos);
}

TEST_CASE("mixtral: shares of the chosen experts add up to one") {
  auto [manifest, config] = tiny_model("mixtral");
  config.normalise_top_k.reset();
  const auto model = whole_model(manifest, config);
  REQUIRE(model->graph);
  CHECK(model->value("layers.0.mlp.shares:sum") >= 0);
  // Without a config two experts per token are what the class has.
  config.experts_per_token.reset();
  CHECK(whole_model(manifest, config)->graph);
}

TEST_CASE("mixtral: tokens go to no more experts than there are") {
  auto [manifest, config] = tiny_model("mixtral");
  config.experts_per_token = 5;
  CHECK(whole_model(manifest, config)->messages ==
        "SP009 experts that a token goes to are not from 1 to all experts");
}

}  // namespace
}  // namespace shardplan
