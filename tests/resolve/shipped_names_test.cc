// SPDX-License-Identifier: Apache-2.0
// The shipped sets for models with experts under the names of other programs:
// each model takes the same bytes per device under all of them, and each tensor
// is placed as the labels of its dimensions have it (@all_models).
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/naming/name_scheme.h"
#include "resolve/device_memory.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/linted.h"
#include "tests/support/maxtext_names.h"
#include "tests/support/planned_model.h"
#include "tests/support/shipped_rules.h"

namespace shardplan {
namespace {

using testing::Json;

struct Family {
  std::string set;
  Json config;
};

// Real sizes, and few layers.
std::vector<Family> families() {
  return {
      {"@mixtral", testing::changed(testing::sample_config("mixtral-8x7b"),
                                    {{"num_hidden_layers", 2}})},
      {"@qwen3_moe", testing::changed(testing::sample_config("qwen3-30b-a3b"),
                                      {{"num_hidden_layers", 2}})},
      // Other programs lack layers that predict further tokens, and FP8.
      {"@deepseek_v3",
       testing::changed(testing::without(testing::sample_config("deepseek-v3"),
                                         "quantization_config"),
                        {{"num_hidden_layers", 4},
                         {"first_k_dense_replace", 2},
                         {"num_nextn_predict_layers", 0}})}};
}

// MaxText's parameters without scanned layers.
Manifest every_layer(const Manifest& scanned) {
  Manifest manifest;
  for (size_t i = 0; i < scanned.size(); ++i) {
    const TensorType& type = scanned.type(i);
    const testing::MaxTextArray array{std::string(scanned.name(i)), type.shape};
    if (!testing::is_scanned(array.name)) {
      REQUIRE(manifest.add(array.name, type, Span()));
      continue;
    }
    const int64_t layers = array.shape[testing::layers_dim(array.name)];
    for (int64_t layer = 0; layer < layers; ++layer) {
      const testing::MaxTextArray one = testing::unscanned(array, layer);
      REQUIRE(manifest.add(one.name, {type.dtype, one.shape}, Span()));
    }
  }
  return manifest;
}

struct OnMesh {
  std::string mesh;
  std::vector<std::string> views;
};

struct Placed {
  Plan plan;
  int64_t bytes = 0;
};

Placed place_by(const std::string& set, const Manifest& manifest,
                const Mesh& mesh) {
  const testing::Linted linted =
      testing::lint_of(manifest, testing::shipped_rules(set), mesh);
  CHECK_FALSE(linted.diags.has_errors());
  Diagnostics diags;
  auto plan = resolve(manifest, linted.rules, mesh, {}, diags);
  REQUIRE(plan);
  const auto memory = device_memory(manifest, *plan, diags);
  REQUIRE(memory);
  CHECK(memory->max == memory->min);
  for (size_t i = 0; i < manifest.size(); ++i) {
    CAPTURE(manifest.name(i));
    CHECK_FALSE(plan->is_unmatched(plan->of(i)));
    CHECK(plan->of(i).corrections.empty());
  }
  return {*std::move(plan), memory->max};
}

std::string placement_text(const Placement& placement) {
  return spec_text(testing::without_trailing(placement.spec)) + " in `" +
         placement.view + "`" +
         (placement.dealt ? " dealt over " + placement.dealt->axis : "");
}

// How many parameters the view has.
int check_as_labelled(Manifest manifest, const Mesh& mesh,
                      const Placed& placed) {
  REQUIRE(label_parameters(manifest));
  const Placed labelled = place_by("@all_models", manifest, mesh);
  int of_view = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    CAPTURE(manifest.name(i));
    const Placement& placement = placed.plan.of(i);
    of_view += placement.view.empty() ? 0 : 1;
    // Packed: by the labels its rows are not to be cut.
    if (manifest.name(i).ends_with("gate_up_proj")) continue;
    CHECK(placement_text(placement) == placement_text(labelled.plan.of(i)));
  }
  return of_view;
}

// Each layer's array as the scanned one, without the dimension that counts
// them.
void check_as_scanned(const Manifest& scanned, const Placed& expected,
                      const Manifest& layers, const Placed& placed) {
  size_t at = 0;
  for (size_t i = 0; i < scanned.size(); ++i) {
    const std::string name(scanned.name(i));
    const bool is_scanned = testing::is_scanned(name);
    const size_t dim = testing::layers_dim(name);
    const Placement& whole = expected.plan.of(i);
    Placement one = whole;
    if (is_scanned) {
      one.spec.dims.resize(whole.type.shape.size());
      CHECK(one.spec.dims[dim].empty());
      one.spec.dims.erase(one.spec.dims.begin() +
                          static_cast<std::ptrdiff_t>(dim));
    }
    const int64_t count = is_scanned ? whole.type.shape[dim] : 1;
    for (int64_t layer = 0; layer < count; ++layer, ++at) {
      CAPTURE(layers.name(at));
      CHECK(placement_text(placed.plan.of(at)) == placement_text(one));
    }
  }
  CHECK(at == layers.size());
}

TEST_CASE("shipped rules place a model with experts alike under all names") {
  const std::vector<OnMesh> rows = {
      {"fsdp=8,tp=4", {"experts:ep=8,edp=4"}},
      {"fsdp=8,tp=4", {"experts:ep=8,etp=2,efsdp=2"}},
      {"dp=2,fsdp=2,sp=2,tp=4", {"experts:efsdp=4,ep=4,etp=2"}},
      {"fsdp=8,tp=4", {}},
      {"fsdp=2,ep=4,tp=4", {}}};
  for (const Family& family : families()) {
    CAPTURE(family.set);
    const auto plain = testing::synthesize(family.config);
    const Manifest& hub = plain->good();
    for (const OnMesh& row : rows) {
      CAPTURE(row.mesh);
      const Mesh mesh = testing::mesh_with_views(row.mesh, row.views);
      const auto check = [&](const Manifest& manifest, const Placed& placed) {
        const int of_view = check_as_labelled(manifest, mesh, placed);
        CHECK((of_view > 0) == !row.views.empty());
      };
      const Placed expected = place_by(family.set, hub, mesh);
      check(hub, expected);
      for (const std::string scheme :
           {"easydel", "transformers-5", "maxtext"}) {
        CAPTURE(scheme);
        const auto renamed =
            testing::synthesize(family.config, find_name_scheme(scheme));
        const Manifest& manifest = renamed->good();
        const Placed placed = place_by(family.set, manifest, mesh);
        CHECK(placed.bytes == expected.bytes);
        check(manifest, placed);
        if (scheme != "maxtext") continue;
        const Manifest layers = every_layer(manifest);
        const Placed by_layer = place_by(family.set, layers, mesh);
        CHECK(by_layer.bytes == expected.bytes);
        check_as_scanned(manifest, placed, layers, by_layer);
      }
    }
  }
}

}  // namespace
}  // namespace shardplan
