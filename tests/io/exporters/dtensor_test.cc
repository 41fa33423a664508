// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "io/dialects/dialects.h"
#include "io/exporters/exporters.h"
#include "tests/support/messages.h"
#include "tests/support/planned_model.h"

namespace shardplan {
namespace {

using testing::PlannedModel;

std::optional<std::string> written(const PlannedModel& model,
                                   Diagnostics& diags) {
  return kDtensorTarget.write({model.manifest, model.plan}, diags);
}

TEST_CASE("placements are written per mesh dimension, with names and sizes") {
  Diagnostics diags;
  const auto text =
      written(testing::planned({{"a.weight", "f32[8, 8]"}, {"b[0]", "f32[8]"}},
                               {"(dp, tp), None", ""}, "dp=2,tp=2"),
              diags);
  REQUIRE(text);
  CHECK(*text == R"json({
  "mesh_dim_names": ["dp", "tp"],
  "mesh": {"dp": 2, "tp": 2},
  "placements": {
    "a.weight": ["Shard(0)", "Shard(0)"],
    "b[[]0]": ["Replicate()", "Replicate()"]
  }
}
)json");
}

TEST_CASE("what placements cannot say is refused with the reason") {
  Diagnostics diags;
  PlannedModel model =
      testing::planned({{"a", "f32[8, 8]"}, {"b", "f32[7]"}, {"c", "f32[8]"}},
                       {"(tp, dp), None", "tp", ""}, "dp=2,tp=2");
  model.plan.on_indivisible = OnIndivisible::Pad;
  model.plan.placements[2].requested =
      PartitionSpec{{AxisNames{std::string(kUnconstrained)}}};
  CHECK_FALSE(written(model, diags));
  REQUIRE(diags.all().size() == 3);
  CHECK(testing::message(diags.all()[0]) ==
        "SP014 `a` cannot be said in placements");
  CHECK(diags.all()[0].facts[0] ==
        "dimension 0 is cut over (tp, dp), which is not the order of the mesh "
        "dp=2,tp=2");
  CHECK(diags.all()[1].facts[0] ==
        "dimension 0 of size 7 is padded to a multiple of 2; DTensor stores "
        "shorter shards instead");
  CHECK(diags.all()[2].facts[0] ==
        "a dimension is UNCONSTRAINED, and placements leave nothing open");
}

TEST_CASE("placements are read back as they were written") {
  CHECK(rc::check("specs survive", [] {
    PlannedModel model = testing::any_planned_model();
    model.plan.on_indivisible = OnIndivisible::Chunk;
    Diagnostics diags;
    const auto text = written(model, diags);
    RC_ASSERT(text.has_value() != diags.has_errors());
    if (!text || model.manifest.size() == 0) return;
    const RuleSet rules = testing::read_rules(kDtensor, *text, diags);
    RC_ASSERT(make_mesh(*rules.mesh, std::nullopt, {}, diags) ==
              model.plan.mesh);
    for (size_t i = 0; i < model.manifest.size(); ++i) {
      RC_ASSERT(testing::spec_by_rules(rules, model.manifest, i) ==
                testing::without_trailing(model.plan.of(i).spec));
    }
  }));
}

}  // namespace
}  // namespace shardplan
