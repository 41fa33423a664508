// SPDX-License-Identifier: Apache-2.0
#include "memory/stages.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/placed.h"

namespace shardplan {
namespace {

LayerGroups groups_of(const Manifest& manifest) {
  std::vector<uint32_t> kinds;
  for (size_t i = 0; i < manifest.size(); ++i) {
    kinds.push_back(manifest.type_number(i));
  }
  return layer_groups(manifest, kinds);
}

TEST_CASE("a layer is a name up to its first number") {
  const LayerGroups found = groups_of(
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
  for (const GroupForm& form : found.forms) {
    forms.push_back(form.label + " x" + std::to_string(form.groups));
  }
  CHECK(forms == std::vector<std::string>{"model.embed_tokens x1",
                                          "model.layers.* x2",
                                          "model.layers.* x1", "lm_head x1"});
  CHECK(found.forms[1].members == std::vector<GroupForm::Member>{{1, 2}});
  CHECK(found.groups[0].place == GroupPlace::Embedding);
  CHECK(found.groups[0].is_token_embedding);
  CHECK(found.groups.back().place == GroupPlace::Head);
}

TEST_CASE("places outside of layers are known from usual names") {
  const LayerGroups found =
      groups_of(testing::manifest({{"transformer.wpe.weight", "f32[8, 4]"},
                                   {"transformer.h.0.w", "f32[4]"},
                                   {"transformer.ln_f.weight", "f32[4]"},
                                   {"vision.patch_embed.weight", "f32[4]"},
                                   {"step", "i32[]"},
                                   {"weight", "f32[4]"}}));
  CHECK(found.groups[0].place == GroupPlace::Embedding);
  CHECK_FALSE(found.groups[0].is_token_embedding);
  CHECK(found.groups[2].place == GroupPlace::Norm);
  CHECK(found.groups[3].place == GroupPlace::Unknown);
  CHECK(found.groups[4].name == "step");
  CHECK(found.groups[5].name == "weight");
}

TEST_CASE("MaxText stacks layers along the second dimension, in two stacks") {
  const Manifest manifest =
      testing::manifest({{"decoder/dense_layers/mlp/wi/kernel", "f32[4, 2, 8]"},
                         {"decoder/dense_layers/mlp/wo/kernel", "f32[8, 2, 4]"},
                         {"decoder/dense_layers/norm/scale", "f32[4, 2]"},
                         {"decoder/moe_layers/mlp/wi/kernel", "f32[4, 26, 8]"},
                         {"decoder/moe_layers/mlp/wo/kernel", "f32[8, 26, 4]"},
                         {"decoder/moe_layers/norm/scale", "f32[4, 26]"}});
  const LayerGroups found = groups_of(manifest);
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
  CHECK(groups_of(manifest).groups.size() == 3);
  manifest.facts.layers = 24;
  const LayerGroups found = groups_of(manifest);
  REQUIRE(found.groups.size() == 2);
  CHECK(found.forms[0].label == "decoder/layers");
  CHECK(found.forms[0].stacked_dim == 0);
  CHECK(found.forms[0].layers == 24);
  CHECK_FALSE(found.forms[1].is_stacked());

  // Numbered layers are not stacked beside.
  Manifest numbered = testing::manifest({{"bias/table", "f32[2, 4]"},
                                         {"layers/0/w", "f32[4]"},
                                         {"layers/1/w", "f32[4]"}});
  numbered.facts.layers = 2;
  CHECK_FALSE(groups_of(numbered).forms[0].is_stacked());
}

using Labels = std::vector<std::string>;

Manifest model(int layers, bool head) {
  std::vector<testing::NamedType> tensors;
  if (head) tensors.push_back({"lm_head/kernel", "f32[4, 8]"});
  tensors.push_back({"model/embed_tokens/embedding", "f32[8, 4]"});
  for (int i = 0; i < layers; ++i) {
    tensors.push_back({"model/layers/" + std::to_string(i) + "/w", "f32[4]"});
  }
  tensors.push_back({"model/norm/kernel", "f32[4]"});
  return testing::manifest(tensors);
}

struct Staged {
  std::optional<StagePlan> plan;
  Labels labels;
  std::string problem;
};

Staged staged(const Manifest& manifest, const std::string& mesh_text,
              std::vector<int64_t> layers = {}) {
  const Mesh mesh = testing::mesh(mesh_text);
  std::vector<uint32_t> kinds;
  for (size_t i = 0; i < manifest.size(); ++i) {
    kinds.push_back(manifest.type_number(i));
  }
  const LayerGroups groups = layer_groups(manifest, kinds);
  const std::vector<bool> not_cut(manifest.types().size());
  Diagnostics diags;
  Staged result;
  result.plan =
      plan_stages(manifest, mesh, groups, not_cut, {"pp", layers}, diags);
  result.problem = testing::first_message(diags);
  if (!result.plan) return result;
  // Every unit is somewhere.
  for (const auto& on : result.plan->stages_of) CHECK_FALSE(on.empty());
  for (int64_t i = 0; i < result.plan->stages; ++i) {
    result.labels.push_back(stage_label(*result.plan, groups, i));
  }
  return result;
}

TEST_CASE("embedding is first, head is last, wherever the file has them") {
  CHECK(staged(model(8, true), "pp=4").labels ==
        Labels{"stage 0: embedding, layers 0-1", "stage 1: layers 2-3",
               "stage 2: layers 4-5", "stage 3: layers 6-7, head"});
}

TEST_CASE("a tied embedding is on both ends") {
  const Staged tied = staged(model(4, false), "dp=2,pp=2");
  CHECK(tied.plan->tied == "model/embed_tokens/embedding");
  CHECK(tied.labels == Labels{"stage 0: embedding, layers 0-1",
                              "stage 1: layers 2-3, tied embedding"});
  CHECK(staged(model(4, false), "pp=1").plan->tied.empty());
}

TEST_CASE("further tokens are embedded on the last stage") {
  const auto further = [](const char* own) {
    Manifest model =
        testing::manifest({{"embedding.word_embeddings.weight", "f32[9, 8]"},
                           {"decoder.layers.0.w", "f32[8, 8]"},
                           {"decoder.layers.1.w", "f32[8, 8]"},
                           {own, "f32[9, 8]"},
                           {"mtp.layers.0.eh_proj.weight", "f32[8, 16]"},
                           {"output_layer.weight", "f32[9, 8]"}});
    model.facts.layers = 2;
    return model;
  };
  CHECK(staged(further("mtp.layers.0.enorm.weight"), "pp=2").labels ==
        Labels{"stage 0: embedding, layer 0",
               "stage 1: layer 1, head, embedding"});
  CHECK(staged(further("mtp.layers.0.embed_tokens.weight"), "pp=2").labels ==
        Labels{"stage 0: embedding, layer 0", "stage 1: layer 1, head"});
}

// BERT of Megatron-core: what it calls a head is a dense layer and a bias.
TEST_CASE(
    "a head without a matrix onto the vocabulary leaves it to the embedding") {
  Manifest bert =
      testing::manifest({{"embedding.word_embeddings.weight", "f32[100, 8]"},
                         {"encoder.layers.0.w", "f32[8, 8]"},
                         {"encoder.layers.1.w", "f32[8, 8]"},
                         {"lm_head.dense.weight", "f32[8, 8]"},
                         {"output_layer.bias", "f32[100]"}});
  CHECK(staged(bert, "pp=2").labels ==
        Labels{"stage 0: embedding, layer 0",
               "stage 1: layer 1, head, tied embedding"});
  Manifest own =
      testing::manifest({{"embedding.word_embeddings.weight", "f32[100, 8]"},
                         {"encoder.layers.0.w", "f32[8, 8]"},
                         {"encoder.layers.1.w", "f32[8, 8]"},
                         {"output_layer.weight", "f32[100, 8]"}});
  CHECK(staged(own, "pp=2").labels ==
        Labels{"stage 0: embedding, layer 0", "stage 1: layer 1, head"});
}

// Megatron-LM#1304: 30 layers on 4 stages, of which 28 were placed.
TEST_CASE("a remainder of layers goes to the first stages, none is lost") {
  const Staged found = staged(model(30, true), "pp=4");
  CHECK(found.plan->uneven);
  CHECK(found.labels == Labels{"stage 0: embedding, layers 0-7",
                               "stage 1: layers 8-15", "stage 2: layers 16-22",
                               "stage 3: layers 23-29, head"});
  CHECK_FALSE(staged(model(30, true), "pp=4", {8, 8, 7, 7}).plan->uneven);
}

TEST_CASE("numbers of layers that do not fit are refused") {
  CHECK(staged(model(30, true), "pp=4", {7, 7, 7, 7}).problem ==
        "`--stages` does not place every layer exactly once");
  CHECK(staged(model(30, true), "pp=4", {15, 15}).problem ==
        "`--stages` does not place every layer exactly once");
  CHECK(staged(model(3, true), "pp=4").problem ==
        "axis `pp` has 4 stages, but the model has only 3 layers");
  CHECK(staged(model(3, true), "pp=4", {0, 1, 1, 1}).labels.front() ==
        "stage 0: embedding, no layers");
  CHECK(staged(model(3, true), "dp=4").problem ==
        "`--stages` names axis `pp`, which the mesh does not have");
}

TEST_CASE("layers that are not known are refused") {
  Manifest two = testing::manifest({{"encoder/0/w", "f32[4]"},
                                    {"decoder/0/w", "f32[4]"},
                                    {"decoder/1/w", "f32[4]"}});
  CHECK(staged(two, "pp=2").problem ==
        "`--stages` cannot find the layers of the model");
  two.facts.layers = 2;
  CHECK(staged(two, "pp=2").labels ==
        Labels{"stage 0: layer 0", "stage 1: layer 1"});
  Manifest few = model(3, true);
  few.facts.layers = 4;
  CHECK(staged(few, "pp=2").problem ==
        "the model has fewer layers than its facts say");
}

TEST_CASE("layers beyond the facts are on the last stage") {
  Manifest mtp = model(5, true);
  mtp.facts.layers = 4;
  const Staged found = staged(mtp, "pp=2");
  CHECK(found.plan->extra_layers == 1);
  CHECK(found.labels == Labels{"stage 0: embedding, layers 0-1",
                               "stage 1: layers 2-3 and 1 more, head"});
}

TEST_CASE("other tensors go by their place in the manifest") {
  const Staged found = staged(testing::manifest({{"scale", "f32[4]"},
                                                 {"layers/0/w", "f32[4]"},
                                                 {"layers/1/w", "f32[4]"},
                                                 {"shift", "f32[4]"}}),
                              "pp=2");
  CHECK(found.plan->stages_of.front() == std::vector<int64_t>{0});
  CHECK(found.plan->stages_of.back() == std::vector<int64_t>{1});
}

TEST_CASE("stacked layers must be cut over the axis by their specs") {
  Manifest stacked = testing::manifest({{"layers/w", "f32[4, 8]"}});
  stacked.facts.layers = 4;
  CHECK(staged(stacked, "pp=2").problem ==
        "the stacked layers of `layers` are not sharded over `pp`");
}

}  // namespace

}  // namespace shardplan
