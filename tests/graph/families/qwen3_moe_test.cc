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

// What @qwen3_moe does not say of experts in two tensors.
constexpr const char* kFused = R"(axes: [dp, fsdp, ep, tp, sp]
rules:
  - ["experts.gate_up_proj$", [ep, null, [fsdp, sp]]]
  - ["experts.down_proj$", [ep, [fsdp, sp], tp]]
  - ["(embed_tokens|lm_head).weight$", [tp, [fsdp, sp]]]
  - ["(q|k|v)_proj.weight$", [tp, [fsdp, sp]]]
  - ["o_proj.weight$", [[fsdp, sp], tp]]
  - [".*", []]
)";

TEST_CASE("qwen3_moe: sharded is unsharded, some layers dense, experts fused") {
  auto [manifest, config] = tiny_model("qwen3_moe", "some-dense");
  const auto model = whole_model(manifest, config, {2, 4, {}, {}});
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK(model->value("layers.0.mlp.router") == -1);
  CHECK(model->value("layers.1.mlp.router") >= 0);
  CHECK(disagreements(*model, "@qwen3_moe") == "");

  auto [fused, fused_config] = tiny_model("qwen3_moe", "fused");
  const auto two = whole_model(fused, fused_config, {2, 4, 1, {}});
  REQUIRE_MESSAGE(two->graph, two->messages);
  const auto run =
      testing::simulated(*two, kFused, "ep=2,tp=2", ValueSource::Field);
  REQUIRE(run.simulation);
  CHECK_FALSE(run.simulation->mismatch);
}

TEST_CASE("qwen3_moe: any scheme of names gives the same outputs") {
  auto [manifest, config] = tiny_model("qwen3_moe");
  const auto model = whole_model(manifest, config);
  REQUIRE_MESSAGE(model->graph, model->messages);
  for (const Stacking stacking :
       {Stacking::None, Stacking::Experts, Stacking::LayersAndExperts}) {
    CHECK(testing::largest_difference(
              *model, testing::flax_names(manifest, stacking)) < 1e-5);
  }
}

TEST_CASE("qwen3_moe: experts where the config says, else where names do") {
  auto [manifest, config] = tiny_model("qwen3_moe", "some-dense");
  config.model_type = "";
  config.dense_layers.clear();
  const auto model = whole_model(manifest, config);
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK(model->value("layers.0.mlp.router") == -1);
  CHECK(model->value("layers.1.mlp.router") >= 0);

  config.model_type = "qwen3_moe";
  const auto wrong = whole_model(manifest, config);
  CHECK_FALSE(wrong->graph);
  CHECK(wrong->messages.find("SP015") == 0);
}

TEST_CASE("qwen3_moe: shares are as chosen unless norm_topk_prob") {
  auto [manifest, config] = tiny_model("qwen3_moe");
  CHECK(whole_model(manifest, config)->value("layers.0.mlp.shares:sum") == -1);
  config.normalise_top_k = true;
  CHECK(whole_model(manifest, config)->value("layers.0.mlp.shares:sum") >= 0);
}

}  // namespace
}  // namespace shardplan
