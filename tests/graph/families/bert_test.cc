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

TEST_CASE("bert: sharded is unsharded, with the pooler or the word head") {
  for (const std::string variant : {"", "head"}) {
    auto [manifest, config] = tiny_model("bert", variant);
    const auto model = whole_model(manifest, config, {2, 4, 1, {}});
    REQUIRE_MESSAGE(model->graph, model->messages);
    CHECK(testing::disagreements(*model, "@bert") == "");
  }
}

TEST_CASE("bert: any scheme of names gives the same outputs") {
  for (const std::string variant : {"", "head"}) {
    auto [manifest, config] = tiny_model("bert", variant);
    const auto model = whole_model(manifest, config);
    REQUIRE(model->graph);
    for (const Stacking stacking : {Stacking::None, Stacking::Layers}) {
      CHECK(testing::largest_difference(
                *model, testing::flax_names(manifest, stacking)) < 1e-5);
    }
  }
}

TEST_CASE("bert: outputs are what transformers calls them") {
  auto [manifest, config] = tiny_model("bert");
  CHECK(whole_model(manifest, config)->description->outputs ==
        std::vector<std::string>{"last_hidden_state", "pooler_output"});
  auto [with_head, head_config] = tiny_model("bert", "head");
  CHECK(whole_model(with_head, head_config)->description->outputs ==
        std::vector<std::string>{"logits"});
}

TEST_CASE("bert: every token sees all, and there are no more than positions") {
  auto [manifest, config] = tiny_model("bert");
  const auto model = whole_model(manifest, config);
  CHECK(model->ops().find("causal_mask") == std::string::npos);
  CHECK(whole_model(manifest, config, {2, 13, {}, {}})->messages ==
        "SP009 the model has 12 positions, for 13 tokens");
}

}  // namespace
}  // namespace shardplan
