// SPDX-License-Identifier: Apache-2.0
#include "memory/layers.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

LayerUnits units_of(const Manifest& manifest) {
  std::vector<uint32_t> kinds;
  for (size_t i = 0; i < manifest.size(); ++i) {
    kinds.push_back(manifest.type_number(i));
  }
  return layer_units(manifest, kinds);
}

TEST_CASE("a layer is a name up to its first number") {
  const LayerUnits found = units_of(
      testing::manifest({{"model.embed_tokens.weight", "f32[8, 4]"},
                         {"model.layers.0.mlp.experts.0.w1", "f32[4, 4]"},
                         {"model.layers.0.mlp.experts.1.w1", "f32[4, 4]"},
                         {"model.layers.1.mlp.experts.0.w1", "f32[4, 4]"},
                         {"model.layers.1.mlp.experts.1.w1", "f32[4, 4]"},
                         {"model.layers.2.mlp.w", "f32[4]"},
                         {"lm_head.weight", "f32[8, 4]"},
                         {"lm_head.bias", "f32[8]"}}));
  REQUIRE(found.stacks.size() == 1);
  CHECK(found.stacks[0].prefix == "model.layers.");
  CHECK(found.stacks[0].layers == 3);
  std::vector<std::string> forms;
  for (const UnitForm& form : found.forms) {
    forms.push_back(form.label + " x" + std::to_string(form.units));
  }
  CHECK(forms == std::vector<std::string>{"model.embed_tokens x1",
                                          "model.layers.* x2",
                                          "model.layers.* x1", "lm_head x1"});
  CHECK(found.forms[1].members == std::vector<UnitForm::Member>{{1, 2}});
  CHECK(found.units[0].place == UnitPlace::Embedding);
  CHECK(found.units[0].is_token_embedding);
  CHECK(found.units.back().place == UnitPlace::Head);
}

TEST_CASE("places outside of layers are told from usual names") {
  const LayerUnits found =
      units_of(testing::manifest({{"transformer.wpe.weight", "f32[8, 4]"},
                                  {"transformer.h.0.w", "f32[4]"},
                                  {"transformer.ln_f.weight", "f32[4]"},
                                  {"vision.patch_embed.weight", "f32[4]"},
                                  {"step", "i32[]"},
                                  {"weight", "f32[4]"}}));
  CHECK(found.units[0].place == UnitPlace::Embedding);
  CHECK_FALSE(found.units[0].is_token_embedding);
  CHECK(found.units[2].place == UnitPlace::Norm);
  CHECK(found.units[3].place == UnitPlace::Unknown);
  CHECK(found.units[4].name == "step");
  CHECK(found.units[5].name == "weight");
}

TEST_CASE("MaxText stacks layers along the second dimension, in two stacks") {
  const Manifest manifest =
      testing::manifest({{"decoder/dense_layers/mlp/wi/kernel", "f32[4, 2, 8]"},
                         {"decoder/dense_layers/mlp/wo/kernel", "f32[8, 2, 4]"},
                         {"decoder/dense_layers/norm/scale", "f32[4, 2]"},
                         {"decoder/moe_layers/mlp/wi/kernel", "f32[4, 26, 8]"},
                         {"decoder/moe_layers/mlp/wo/kernel", "f32[8, 26, 4]"},
                         {"decoder/moe_layers/norm/scale", "f32[4, 26]"}});
  const LayerUnits found = units_of(manifest);
  REQUIRE(found.forms.size() == 2);
  CHECK(found.forms[0].label == "decoder/dense_layers");
  CHECK(found.forms[0].stacked_dim == 1);
  CHECK(found.forms[0].layers == 2);
  CHECK(found.forms[1].label == "decoder/moe_layers");
  CHECK(found.forms[1].layers == 26);
}

TEST_CASE("tensors that stack all layers are one unit per stack") {
  Manifest manifest =
      testing::manifest({{"decoder/layers/mlp/wi/kernel", "f32[24, 4, 8]"},
                         {"decoder/layers/norm/scale", "f32[24, 4]"},
                         {"decoder/bias", "f32[24]"}});
  CHECK(units_of(manifest).units.size() == 3);
  manifest.facts.layers = 24;
  const LayerUnits found = units_of(manifest);
  REQUIRE(found.units.size() == 2);
  CHECK(found.forms[0].label == "decoder/layers");
  CHECK(found.forms[0].stacked_dim == 0);
  CHECK(found.forms[0].layers == 24);
  CHECK_FALSE(found.forms[1].is_stacked());

  // Numbered layers are not stacked beside.
  Manifest numbered = testing::manifest({{"bias/table", "f32[2, 4]"},
                                         {"layers/0/w", "f32[4]"},
                                         {"layers/1/w", "f32[4]"}});
  numbered.facts.layers = 2;
  CHECK_FALSE(units_of(numbered).forms[0].is_stacked());
}

}  // namespace
}  // namespace shardplan
