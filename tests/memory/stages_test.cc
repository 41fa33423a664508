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
  const LayerUnits units = layer_units(manifest, kinds);
  const std::vector<bool> not_cut(manifest.types().size());
  Diagnostics diags;
  Staged result;
  result.plan =
      plan_stages(manifest, mesh, units, not_cut, {"pp", layers}, diags);
  result.problem = testing::first_message(diags);
  if (!result.plan) return result;
  // Every unit is somewhere.
  for (const auto& on : result.plan->stages_of) CHECK_FALSE(on.empty());
  for (int64_t i = 0; i < result.plan->stages; ++i) {
    result.labels.push_back(stage_label(*result.plan, units, i));
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
        "`--stages` does not place every layer once");
  CHECK(staged(model(30, true), "pp=4", {15, 15}).problem ==
        "`--stages` does not place every layer once");
  CHECK(staged(model(3, true), "pp=4").problem ==
        "axis `pp` has 4 stages, and the model only 3 layers");
  CHECK(staged(model(3, true), "pp=4", {0, 1, 1, 1}).labels.front() ==
        "stage 0: embedding, no layers");
  CHECK(staged(model(3, true), "dp=4").problem ==
        "`--stages` names axis `pp`, which the mesh does not have");
}

TEST_CASE("layers that cannot be told are refused") {
  Manifest two = testing::manifest({{"encoder/0/w", "f32[4]"},
                                    {"decoder/0/w", "f32[4]"},
                                    {"decoder/1/w", "f32[4]"}});
  CHECK(staged(two, "pp=2").problem ==
        "`--stages` cannot tell the layers of the model");
  two.facts.layers = 2;
  CHECK(staged(two, "pp=2").labels ==
        Labels{"stage 0: layer 0", "stage 1: layer 1"});
  Manifest few = model(3, true);
  few.facts.layers = 4;
  CHECK(staged(few, "pp=2").problem ==
        "the model has fewer layers than its facts tell");
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
        "the stacked layers of `layers` are not cut over `pp`");
}

}  // namespace
}  // namespace shardplan
