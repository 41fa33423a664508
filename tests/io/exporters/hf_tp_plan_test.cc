// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "io/dialects/dialects.h"
#include "io/exporters/exporters.h"
#include "tests/support/messages.h"
#include "tests/support/planned_model.h"

namespace shardplan {
namespace {

using testing::PlannedModel;

std::optional<std::string> written(const PlannedModel& model,
                                   Diagnostics& diags) {
  return kHfTpPlanTarget.write({model.manifest, model.plan}, diags);
}

TEST_CASE("a style is found per module, and whole modules have none") {
  Diagnostics diags;
  const auto text =
      written(testing::planned({{"l.0.q.weight", "f32[8, 4]"},
                                {"l.0.q.bias", "f32[8]"},
                                {"l.1.q.weight", "f32[8, 4]"},
                                {"l.1.q.bias", "f32[8]"},
                                {"l.0.o.weight", "f32[8, 4]"},
                                {"l.0.o.bias", "f32[8]"},
                                {"l.0.norm.weight", "f32[8]"},
                                {"l.0.experts.up", "f32[4, 8, 2]"},
                                {"l.0.experts.gate", "f32[4, 8, 2]"},
                                {"l.0.mixed.a", "f32[4, 8]"},
                                {"l.0.mixed.b", "f32[4, 8]"}},
                               {"tp", "tp", "tp", "tp", "None, tp", "", "",
                                "tp", "None, tp", "None, tp", ""},
                               "dp=2,tp=2"),
              diags);
  REQUIRE_MESSAGE(text, testing::messages(diags));
  CHECK(*text == R"({
  "tp_plan": {
    "l.*.q": "colwise",
    "l.*.o": "rowwise",
    "l.*.experts.up": "grouped_gemm",
    "l.*.experts.gate": "colwise",
    "l.*.mixed.a": "rowwise"
  }
}
)");
}

TEST_CASE("where digits would merge layouts the later folding is asked for") {
  Diagnostics diags;
  const auto text = written(testing::planned({{"e.0.w1.weight", "f32[8, 4]"},
                                              {"e.0.w2.weight", "f32[4, 8]"}},
                                             {"tp", "None, tp"}, "tp=2"),
                            diags);
  REQUIRE(text);
  CHECK(*text == R"({
  "transformers_version": "5.2.0",
  "tp_plan": {
    "e.*.w1": "colwise",
    "e.*.w2": "rowwise"
  }
}
)");
}

TEST_CASE("a parameter that is called as a module has one entry with it") {
  const auto said = [](const char* inner) {
    Diagnostics diags;
    return written(testing::planned({{"head.bias", "f32[]"},
                                     {"head.w", "f32[8, 4]"},
                                     {"head.v", "f32[8, 4]"},
                                     {"head.w.inner", "f32[8, 4]"}},
                                    {"", "tp", "", inner}, "tp=2"),
                   diags)
        .value_or(testing::messages(diags));
  };
  CHECK(said("tp") ==
        "{\n  \"tp_plan\": {\n    \"head.w\": \"colwise\"\n  }\n}\n");
  CHECK(said("None, tp") ==
        "SP014 `head.w.inner` cannot be said in a tensor-parallel plan");
}

TEST_CASE("what no style says is refused with the reason") {
  Diagnostics diags;
  CHECK_FALSE(
      written(testing::planned({{"a.weight", "f32[8, 4]"},
                                {"b.weight", "f32[2, 2, 2, 2]"},
                                {"c.0", "f32[4, 4]"},
                                {"c.1", "f32[4, 4]"},
                                {"d*", "f32[4]"}},
                               {"fsdp", "None, tp", "tp", "None, tp", "tp"},
                               "fsdp=2,tp=2"),
              diags));
  std::string all;
  for (const Diagnostic& d : diags.all()) {
    all += testing::message(d) + ": " + d.facts.at(0) + "\n";
  }
  CHECK(
      all ==
      "SP014 `a.weight` cannot be said in a tensor-parallel plan: it is cut "
      "as P(fsdp); a plan has the axis `tp` alone\n"
      "SP014 `b.weight` cannot be said in a tensor-parallel plan: dimension 1 "
      "of 4 is cut; styles cut the first or one of the last two\n"
      "SP014 `c.1` cannot be said in a tensor-parallel plan: `c.*` would also "
      "stand for `c.0`, which is cut otherwise\n"
      "SP014 `d*` cannot be said in a tensor-parallel plan: its name has a "
      "`*`, which stands for digits there\n");
}

TEST_CASE("a tensor-parallel plan is read back as it was written") {
  CHECK(rc::check("specs survive", [] {
    PlannedModel model{{}, testing::empty_plan(testing::mesh("tp=2"))};
    std::set<std::string> names;
    const auto count = *rc::gen::inRange(0, 8);
    for (int i = 0; i < count; ++i) {
      const auto module = *rc::gen::element<std::string>(
          "l.0.q", "l.1.q", "l.0.w1", "l.0.w2", "head", "l.0.1.x", "3.k");
      const auto leaf = *rc::gen::element<std::string>("weight", "bias", "w",
                                                       "0", "weight.inner");
      if (!names.insert(module + "." + leaf).second) continue;
      Placement placement;
      placement.type = {DType::F32, Shape(*rc::gen::inRange<size_t>(0, 5), 4)};
      const size_t rank = placement.type.shape.size();
      placement.spec.dims.resize(rank);
      const auto dim = *rc::gen::inRange<size_t>(0, rank + 1);
      if (dim < rank) placement.spec.dims[dim] = {"tp"};
      RC_ASSERT(model.manifest.add(module + "." + leaf, placement.type, {}));
      model.plan.placement_of.push_back(
          static_cast<uint32_t>(model.plan.placements.size()));
      model.plan.placements.push_back(placement);
    }
    Diagnostics diags;
    const auto text = written(model, diags);
    RC_ASSERT(text.has_value() != diags.has_errors());
    RC_CLASSIFY(text.has_value());
    if (!text) return;
    const RuleSet rules = testing::read_rules(kHfTpPlan, *text, diags);
    RC_ASSERT(diags.all().empty());
    for (size_t i = 0; i < model.manifest.size(); ++i) {
      RC_ASSERT(testing::spec_by_rules(rules, model.manifest, i) ==
                testing::without_trailing(model.plan.of(i).spec));
    }
  }));
}

}  // namespace
}  // namespace shardplan
