// SPDX-License-Identifier: Apache-2.0
#include "graph/family.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::tiny_model;
using testing::whole_model;

// The family that is recognised, or what is told.
std::string recognised(Manifest manifest, const std::string& model_type) {
  ModelConfig config;
  config.model_type = model_type;
  const auto model = whole_model(std::move(manifest), config);
  return model->family == nullptr ? model->messages
                                  : std::string(model->family->name);
}

TEST_CASE("family: by the config's model_type, whatever the names") {
  for (const Family& family : model_families()) {
    CHECK(recognised(testing::manifest({{"w", "f32[2]"}}),
                     std::string(family.name)) == family.name);
  }
}

TEST_CASE("family: without a config by names, in every scheme of names") {
  for (const std::string family :
       {"llama", "qwen3", "mixtral", "qwen3_moe", "gpt2", "bert"}) {
    CAPTURE(family);
    const Manifest manifest = tiny_model(family).manifest;
    CHECK(recognised(manifest, "") == family);
    for (const auto stacking :
         {testing::Stacking::None, testing::Stacking::LayersAndExperts}) {
      CHECK(recognised(testing::flax_names(manifest, stacking).manifest, "") ==
            family);
    }
  }
  // Names tell these two from Llama by biases, or not at all.
  CHECK(recognised(tiny_model("qwen2").manifest, "") == "qwen2");
  CHECK(recognised(tiny_model("mistral").manifest, "") == "llama");
}

TEST_CASE("family: an unknown model_type is told with its like") {
  const auto model = whole_model(tiny_model("llama").manifest, [] {
    ModelConfig config;
    config.model_type = "qwen4";
    return config;
  }());
  CHECK(model->family == nullptr);
  CHECK(model->messages == "SP016 the forward pass of `qwen4` is not known");
  const Diagnostic& told = model->diags.all().front();
  CHECK(told.help.front() == "a family with a similar name is `qwen2`");
  CHECK(told.help[1].find("mixtral") != std::string::npos);
  CHECK(told.help[2].find("--graph FILE") != std::string::npos);
}

TEST_CASE("family: what was looked for and not found is told") {
  Manifest manifest;
  const Manifest whole = tiny_model("llama").manifest;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole.name(i).find("up_proj") != std::string_view::npos) continue;
    REQUIRE(manifest.add(whole.name(i), whole.type(i), {}));
  }
  const auto model = whole_model(manifest, {});
  REQUIRE(model->family == nullptr);
  const Diagnostic& told = model->diags.all().front();
  CHECK(told.code == Code::UnknownFamily);
  CHECK(told.facts.at(0) ==
        "`llama` is nearest: 10 of 11 names looked for are there");
  CHECK(told.facts.at(1) == "not found: `layers.*.mlp.up_proj.weight`");
  CHECK(told.facts.back().find("`embed_tokens.weight`") != std::string::npos);
}

TEST_CASE("family: names that mean another computation are not taken") {
  Manifest manifest = tiny_model("llama").manifest;
  REQUIRE(manifest.add("model.layers.0.pre_feedforward_layernorm.weight",
                       testing::type("f32[16]"), {}));
  const auto model = whole_model(manifest, {});
  CHECK(model->family == nullptr);
  CHECK(model->diags.all().front().facts.at(1) ==
        "a `llama` has no `layers.*.pre_feedforward_layernorm.weight`");
}

TEST_CASE("family: a model of nothing") {
  CHECK(recognised({}, "").find("SP016") == 0);
}

}  // namespace
}  // namespace shardplan
