// SPDX-License-Identifier: Apache-2.0
// Saved plans with views of the mesh and experts that are dealt out.
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "io/plan/plan_file.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/one_by_one.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

std::string saved_text(const Manifest& manifest, const Plan& plan) {
  std::string text;
  CHECK(write_plan(manifest, plan, [&](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

std::optional<SavedPlan> read_text(std::string text, Diagnostics& diags) {
  return read_plan(std::make_shared<SourceFile>("p", std::move(text)), diags);
}

TEST_CASE("a plan with views that was written is read back as it was") {
  CHECK(holds([] {
    const testing::ViewedAxes axes = testing::draw_viewed_axes(draw_bool());
    const Manifest manifest = testing::draw_experts_model(draw_in(1, 3));
    ResolveOptions how;
    how.on_indivisible = draw_of({OnIndivisible::Drop, OnIndivisible::Prefix,
                                  OnIndivisible::Pad, OnIndivisible::Chunk});
    Diagnostics diags;
    const auto plan = resolve(manifest, testing::draw_view_rules(axes),
                              axes.mesh(), how, diags);
    ENSURE(plan.has_value());
    Diagnostics found;
    const auto saved = read_text(saved_text(manifest, *plan), found);
    ENSURE(testing::messages(found) == "");
    ENSURE(saved.has_value());
    ENSURE(saved->plan.mesh == plan->mesh);
    ENSURE(saved->plan.rules == plan->rules);
    ENSURE(saved->plan.placement_of == plan->placement_of);
    for (size_t i = 0; i < plan->placements.size(); ++i) {
      const Placement& was = plan->placements[i];
      const Placement& is = saved->plan.placements[i];
      ENSURE(is.spec == was.spec);
      ENSURE(is.view == was.view);
      ENSURE(is.dealt == was.dealt);
      ENSURE(is.shards == was.shards);
      ENSURE(is.replicas == was.replicas);
      ENSURE(is.bytes_per_device == was.bytes_per_device);
    }
    ENSURE(fingerprint(saved->manifest, saved->plan) ==
           fingerprint(manifest, *plan));
    ENSURE(saved_text(saved->manifest, saved->plan) ==
           saved_text(manifest, *plan));
    // Placed anew on the same mesh it is the same plan.
    Diagnostics converting;
    const auto again =
        convert_plan(saved->manifest, saved->plan, axes.mesh(), {}, converting);
    ENSURE(again.has_value());
    ENSURE(fingerprint(manifest, *again) == fingerprint(manifest, *plan));
  }));
}

// Two experts over ep=2 of a view, beside one parameter of the mesh.
struct SmallPlan {
  Manifest manifest = testing::manifest({{"attn.q", "bf16[8, 8]"},
                                         {"mlp.experts.0.up", "bf16[4, 8]"},
                                         {"mlp.experts.1.up", "bf16[4, 8]"}});
  Plan plan = [this] {
    RuleSet rules = testing::rules({{"attn", "tp"}, {"experts", "None, etp"}});
    rules.rules[1].view = "experts";
    rules.rules[1].deal = "ep";
    const Mesh mesh({{"dp", 2}, {"tp", 2}},
                    {{"experts", {{"ep", 2}, {"etp", 2}}}});
    Diagnostics diags;
    auto made = resolve(manifest, rules, mesh, {}, diags);
    REQUIRE(made.has_value());
    return *std::move(made);
  }();
};

TEST_CASE("views, and what is dealt out, stand where they are of use") {
  const SmallPlan small;
  const std::string text = saved_text(small.manifest, small.plan);
  for (
      const char* line :
      {R"("mesh":[["dp",2],["tp",2]],
"views":[["experts",[["ep",2],["etp",2]]]],
"on_indivisible":"drop",)",
       R"({"pattern":"experts","spec":[null,"etp"],"file":"rules","line":2,"shipped":false,"view":"experts","deal":"ep","found":2,"won":2,"shadowed_by":[]})",
       R"({"dtype":"bf16","shape":[8,8],"rule":1,"requested":["tp"],"spec":["tp",null],"corrections":[]},)",
       R"({"dtype":"bf16","shape":[4,8],"rule":2,"requested":[null,"etp"],"spec":[null,"etp"],"corrections":[],"view":"experts","dealt":{"axis":"ep","experts":2}})"}) {
    CAPTURE(text);
    CHECK(text.find(line) != text.npos);
  }
}

TEST_CASE("a saved plan with views that cannot be is refused") {
  const SmallPlan small;
  const std::string good = saved_text(small.manifest, small.plan);
  const auto problem = [&](const std::string& part, const std::string& other) {
    std::string text = good;
    const size_t at = text.find(part);
    REQUIRE_MESSAGE(at != text.npos, part);
    text.replace(at, part.size(), other);
    Diagnostics diags;
    CHECK_FALSE(read_text(std::move(text), diags));
    return testing::messages(diags);
  };
  const auto has = [](const std::string& text, std::string_view code,
                      std::string_view part) {
    CAPTURE(text);
    CHECK(text.starts_with(code));
    CHECK(text.find(part) != text.npos);
  };
  const std::string views = R"(["experts",[["ep",2],["etp",2]]])";
  has(problem(views, R"(["experts"])"), "SP002",
      "a view must be a name and axes");
  has(problem(views, R"(["experts",[["ep",2],["etp",2]],1])"), "SP002",
      "a view must be a name and axes");
  has(problem(views, R"(["a b",[["ep",2],["etp",2]]])"), "SP002",
      "`a b` is not a valid view name");
  has(problem(views, R"(["experts",[["ep",2],["etp",4]]])"), "SP007",
      "view `experts` has 8 devices, but the mesh has 4");
  has(problem(views, R"(["experts",[["tp",4]]])"), "SP007",
      "differs from the existing axis of that name");
  has(problem(views, views + "," + views), "SP007", "is given twice");
  has(problem(views, R"(["experts",[["ep",0],["etp",2]]])"), "SP007", "size 0");
  // Axes of two views, an unknown one, or the wrong view's name.
  has(problem(R"("spec":[null,"etp"],"corr)", R"("spec":["tp","etp"],"corr)"),
      "SP002", "no view has all of these axes");
  has(problem(R"("view":"experts","dealt")", R"("view":"other","dealt")"),
      "SP002", "belongs to view `experts`, not to view `other`");
  has(problem(R"("view":"experts","dealt")", R"("dealt")"), "SP002",
      "belongs to view `experts`, not to the mesh");
  const std::string dealt = R"({"axis":"ep","experts":2})";
  has(problem(dealt, R"({"axis":"xp","experts":2})"), "SP002",
      "the mesh has no axis `xp`");
  has(problem(dealt, R"({"axis":"etp","experts":2})"), "SP002",
      "axis `etp` is used twice");
  has(problem(dealt, R"({"axis":"dp","experts":2})"), "SP002",
      "no view has all of these axes");
  has(problem(dealt, R"({"experts":2})"), "SP002", "`dealt` must give an axis");
  has(problem(dealt, R"({"axis":"ep"})"), "SP002", "`dealt` must give an axis");
  has(problem(dealt, R"({"axis":"ep","experts":0})"), "SP002",
      "`dealt` must give an axis");
  has(problem(dealt, R"({"axis":"ep","experts":-3})"), "SP002", "`experts`");
  // What the names say.
  has(problem(dealt, R"({"axis":"ep","experts":1})"), "SP002",
      "it belongs to expert 1 of 1");
  has(problem(dealt, R"({"axis":"ep","experts":3})"), "SP002",
      "not all of the 3 experts have such a parameter");
  has(problem(dealt, R"({"axis":"ep","experts":2,"rank":0})"), "SP002",
      "expert 1 is on rank 1, not 0");
  has(problem(dealt, R"({"axis":"ep","experts":2,"rank":2})"), "SP002",
      "axis `ep` has no rank 2");
  has(problem(R"(["mlp.experts.1.up",1])", R"(["mlp.experts.1.up",1],
["attn.k",1])"),
      "SP002", "its name has no expert number");
  has(problem(R"(["mlp.experts.1.up",1])", R"(["mlp.experts.1.up",1],
["mlp.experts.1.down",1])"),
      "SP002", "not all of the 2 experts have such a parameter");
  has(problem(R"("deal":"ep")", R"("deal":3)"), "SP002", "`deal`");
}

TEST_CASE("a plan keeps its views on another mesh, or gets other ones") {
  const SmallPlan small;
  Diagnostics diags;
  const auto saved = read_text(saved_text(small.manifest, small.plan), diags);
  REQUIRE(saved.has_value());
  // All experts on one rank, and none cut.
  const Mesh wide({{"dp", 4}}, {{"experts", {{"edp", 4}, {"ep", 1}}}});
  const auto one = convert_plan(saved->manifest, saved->plan, wide,
                                {{"tp", "etp"}, false, false, {}}, diags);
  REQUIRE(one.has_value());
  REQUIRE(one->of(1).dealt.has_value());
  CHECK(one->of(1).dealt->size == 1);
  CHECK(one->of(1).replicas == 4);
  const Mesh deep({{"dp", 2}, {"tp", 2}},
                  {{"experts", {{"ep", 4}, {"etp", 1}}}});
  const auto four = convert_plan(saved->manifest, saved->plan, deep, {}, diags);
  REQUIRE(four.has_value());
  CHECK(four->of(1).dealt->size == 4);
  CHECK(four->of(1).view == "experts");
  CHECK(four->of(1).replicas == 1);
}

}  // namespace
}  // namespace shardplan
