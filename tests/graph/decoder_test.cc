// SPDX-License-Identifier: Apache-2.0
#include "graph/decoder.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::tiny_model;
using testing::whole_model;

TEST_CASE("decoder: every parameter of the layers that are run is read") {
  for (const std::string variant : {"", "biased"}) {
    auto [manifest, config] = tiny_model("qwen3", variant);
    const auto model = whole_model(manifest, config);
    REQUIRE_MESSAGE(model->graph, model->messages);
    CHECK(model->description->parameters.size() == manifest.size());
    const auto first = whole_model(manifest, config, {2, 4, 1, {}});
    REQUIRE(first->graph);
    for (const DescribedValue& parameter : first->description->parameters) {
      CHECK(parameter.name.find("layers.1.") == std::string::npos);
    }
  }
}

TEST_CASE("decoder: a tied head is the embedding, also where both are stored") {
  auto [manifest, config] = tiny_model("llama");
  CHECK(whole_model(manifest, config)->value("lm_head.weight") >= 0);
  config.tied = true;
  CHECK(whole_model(manifest, config)->value("lm_head.weight") == -1);
}

TEST_CASE("decoder: values have the names that rules of activations are for") {
  auto [manifest, config] = tiny_model("llama");
  const auto model = whole_model(manifest, config);
  for (const char* name :
       {"input_ids", "embedded", "layers.1.attn.query", "layers.1.attn.key",
        "layers.1.attn.value", "layers.1.attn.output", "layers.1.attn.residual",
        "layers.1.mlp.hidden", "layers.1.mlp.output", "layers.1.residual",
        "norm", "logits"}) {
    CAPTURE(name);
    CHECK(model->value(name) >= 0);
  }
  const Value& hidden =
      model->graph
          ->values[static_cast<size_t>(model->value("layers.0.mlp.hidden"))];
  CHECK(hidden.axes == Labels{"BATCH", "LENGTH", "MLP_INTERMEDIATE"});
}

TEST_CASE("decoder: an attention that is not known is refused") {
  auto [manifest, config] = tiny_model("llama");
  config.windows = {0, kUnknownWindow};
  CHECK(whole_model(manifest, config)->messages ==
        "SP009 what layer 1 attends to is not known");
}

TEST_CASE("decoder: a layer that the checkpoint lacks is told") {
  auto [manifest, config] = tiny_model("llama");
  config.layers = 3;
  CHECK(whole_model(manifest, config)->messages ==
        "SP015 the forward pass of a `llama` needs 9 parameters that the model "
        "does not have");
  // Of those that are not run nothing is asked.
  CHECK(whole_model(manifest, config, {2, 4, 2, {}})->graph);
}

TEST_CASE("decoder: a matrix of another shape is told") {
  auto [manifest, config] = tiny_model("llama");
  config.intermediate = 28;
  const auto model = whole_model(manifest, config);
  CHECK_FALSE(model->graph);
  CHECK(model->messages.find("SP015 `model.layers.0.mlp.gate_proj.weight` has "
                             "another shape in the model") == 0);
}

}  // namespace
}  // namespace shardplan
