// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "io/dialects/dialects.h"
#include "io/exporters/exporters.h"
#include "io/formats/formats.h"
#include "io/stablehlo_text.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/planned_model.h"

namespace shardplan {
namespace {

using testing::PlannedModel;

std::optional<std::string> written(const PlannedModel& model,
                                   Diagnostics& diags) {
  return kShardyTarget.write({model.manifest, model.plan}, diags);
}

TEST_CASE("a module takes the parameters with their shardings and names") {
  PlannedModel model = testing::planned(
      {{"a\"b", "bf16[8, 4]"}, {"open", "f32[8]"}, {"step", "i32[]"}},
      {"(tp, dp)", "", ""}, "dp=2,tp=2");
  model.plan.placements[1].requested =
      PartitionSpec{{AxisNames{std::string(kUnconstrained)}}};
  Diagnostics diags;
  const auto text = written(model, diags);
  REQUIRE(text);
  CHECK(*text == R"(module @shardplan {
  sdy.mesh @mesh = <["dp"=2, "tp"=2]>
  func.func public @main(
      %arg0: tensor<8x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp", "dp"}, {}]>} loc("a\22b"),
      %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}]>} loc("open"),
      %arg2: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>} loc("step")) {
    return
  }
}
)");
}

TEST_CASE("what a module cannot say is refused with the reason") {
  PlannedModel model = testing::planned(
      {{"q", "q4_0[8, 32]"}, {"p['a']", "f32[8]"}, {"odd", "f32[7]"}},
      {"", "", "tp"}, "tp=2");
  model.plan.on_indivisible = OnIndivisible::Chunk;
  Diagnostics diags;
  CHECK_FALSE(written(model, diags));
  REQUIRE(diags.all().size() == 3);
  CHECK(testing::message(diags.all()[0]) ==
        "SP014 `q` cannot be an argument in Shardy");
  CHECK(diags.all()[0].facts[0] == "MLIR has no type for elements of q4_0");
  CHECK(diags.all()[1].facts[0] ==
        "its name would be read as a path of JAX, `p/a`");
  CHECK(diags.all()[2].facts[0] ==
        "dimension 0 of size 7 is cut into chunks of different sizes; Shardy "
        "pads them");
}

TEST_CASE("a module is read back as model, mesh and rules") {
  CHECK(rc::check("names, types and specs survive", [] {
    PlannedModel model = testing::any_planned_model();
    Diagnostics diags;
    const auto text = written(model, diags);
    RC_ASSERT(text.has_value() != diags.has_errors());
    if (!text || model.manifest.size() == 0) return;
    const RuleSet rules = testing::read_rules(kShardy, *text, diags);
    RC_ASSERT(make_mesh(*rules.mesh, std::nullopt, {}, diags) ==
              model.plan.mesh);
    testing::MemoryHost host;
    const auto again = kStableHlo.read(
        {"m", "", std::make_shared<SourceFile>("m", *text)}, host, diags);
    RC_ASSERT(again.has_value());
    RC_ASSERT(again->size() == model.manifest.size());
    RC_ASSERT(again->mesh.size() == model.plan.mesh.axes().size());
    for (size_t i = 0; i < model.manifest.size(); ++i) {
      RC_ASSERT(again->name(i) == model.manifest.name(i));
      RC_ASSERT(again->type(i) == model.manifest.type(i));
      RC_ASSERT(testing::spec_by_rules(rules, model.manifest, i) ==
                testing::without_trailing(model.plan.of(i).spec));
    }
  }));
}

}  // namespace
}  // namespace shardplan
