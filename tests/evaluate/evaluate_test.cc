// SPDX-License-Identifier: Apache-2.0
// A candidate judged by groups is what the same change makes of the whole
// model, resolved, measured and looked at from the start.
#include "evaluate/evaluate.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "advise/what_if.h"
#include "core/fold.h"
#include "tests/support/advised.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::draw_of;

std::string drawn_rules() {
  std::string text = "axes: [tp, dp]\nrules:\n";
  for (int i = 0; i < 4; ++i) {
    text += "  - [\"" +
            draw_of<std::string>({"kernel", "/1/", "q_proj", "bias", "."}) +
            "\", " +
            draw_of<std::string>({"[]", "[tp]", "[null, tp]", "[dp, tp]",
                                  "[[dp, tp]]", "[zz]"}) +
            "]\n";
  }
  return text;
}

RuleChange drawn_change() {
  RuleChange change;
  change.kind = draw_of<RuleChange::Kind>(
      {RuleChange::Kind::SetSpec, RuleChange::Kind::SetPattern,
       RuleChange::Kind::Insert, RuleChange::Kind::Remove,
       RuleChange::Kind::Move});
  change.rule = draw_of<int>({1, 2, 3, 4});
  change.before = draw_of<int>({1, 3});
  change.spec = testing::spec(draw_of<std::string>({"", "dp", "None, tp"}));
  change.pattern = draw_of<std::string>({"proj", "norm", "."});
  change.added = {{"kernel", testing::spec("tp"), {}}};
  return change;
}

Candidate drawn_candidate() {
  Candidate candidate;
  if (draw_of<int>({0, 1}) == 1) candidate.rules.push_back(drawn_change());
  if (draw_of<int>({0, 1}) == 1) {
    candidate.mesh = testing::mesh(
        draw_of<std::string>({"dp=2,tp=3", "dp=1,tp=8", "tp=4", "fsdp=5"}));
  }
  return candidate;
}

Groundwork groundwork_on(const Manifest& manifest, const RuleSet& rules) {
  Diagnostics quiet;
  auto found = find_rules(manifest, rules, {}, quiet);
  ENSURE(found.has_value());
  const Folding folding = fold_by_type(manifest);
  return groundwork_of_rules(manifest, rules, *std::move(found), folding,
                             unit_facts(manifest, folding), {}, {},
                             Places::LeftOut);
}

TEST_CASE("groups of parameters are judged as all parameters are") {
  int64_t changed_plans = 0;
  CHECK(holds("plan, bytes and findings of a candidate", [&] {
    const Manifest manifest = testing::draw_manifest();
    const RuleSet rules = testing::read_rules(drawn_rules());
    const Mesh mesh = testing::mesh("dp=2,tp=2");
    const ResolveOptions how;
    const Groundwork ground = groundwork_on(manifest, rules);
    Evaluator evaluator(ground);
    // One evaluator for several: nothing of one is left for the next.
    for (int i = 0; i < 3; ++i) {
      const Candidate candidate = drawn_candidate();
      const Mesh& on = candidate.mesh ? *candidate.mesh : mesh;
      Diagnostics of_groups;
      const auto judged =
          evaluator.judge(candidate, mesh, kPlanSides, of_groups);
      ENSURE(judged.has_value());
      const RuleSet after = changed(rules, candidate.rules).rules;
      Diagnostics of_all;
      const auto plan = resolve(manifest, after, on, how, of_all);
      ENSURE(plan.has_value());
      const auto whole =
          judge_plan(Model(manifest), &after, *plan, {}, kPlanSides, of_all);
      ENSURE(whole.has_value());
      const Plan spread = plan_of_all(judged->plan, ground.groups);
      ENSURE(spread.placement_of.size() == manifest.size());
      for (size_t p = 0; p < manifest.size(); ++p) {
        ENSURE(spread.of(p).spec == plan->of(p).spec);
        ENSURE(spread.of(p).type == plan->of(p).type);
        ENSURE(spread.of(p).rule == plan->of(p).rule);
      }
      ENSURE(judged->memory.max == whole->memory.max);
      ENSURE(judged->memory.total == whole->memory.total);
      ENSURE(finding_counts(of_groups) == finding_counts(of_all));
      if (!candidate.rules.empty()) ++changed_plans;
    }
  }));
  CHECK(changed_plans > 20);
}

TEST_CASE("a saved plan is judged on another mesh as it is converted") {
  CHECK(holds("plan and bytes", [] {
    const Manifest manifest = testing::draw_manifest();
    const RuleSet rules = testing::read_rules(drawn_rules());
    Diagnostics diags;
    const auto saved =
        resolve(manifest, rules, testing::mesh("dp=2,tp=2"), {}, diags);
    ENSURE(saved.has_value());
    const Folding folding = fold(saved->placement_of, manifest);
    const Groundwork ground = groundwork_of_plan(
        manifest, *saved, folding, unit_facts(manifest, folding), {}, {});
    const Mesh other = testing::mesh("dp=3,tp=4");
    const auto judged = Evaluator(ground).judge({}, other, kMeshSides, diags);
    ENSURE(judged.has_value());
    const auto converted = convert_plan(manifest, *saved, other, {}, diags);
    ENSURE(converted.has_value());
    const Plan spread = plan_of_all(judged->plan, ground.groups);
    for (size_t p = 0; p < manifest.size(); ++p) {
      ENSURE(spread.of(p).spec == converted->of(p).spec);
    }
    const auto memory = device_memory(manifest, *converted, diags);
    ENSURE(memory.has_value());
    ENSURE(judged->memory.max == memory->max);
  }));
}

TEST_CASE("padding is of whole groups") {
  const Manifest manifest = testing::manifest(
      {{"layers/0/w", "u8[9, 8]"}, {"layers/1/w", "u8[9, 8]"}, {"b", "u8[9]"}});
  const RuleSet rules = testing::read_rules("rules:\n  - [w, [tp]]\n");
  Diagnostics diags;
  const Groundwork ground = groundwork_on(manifest, rules);
  CHECK(ground.groups.groups.size() == 2);
  Evaluator evaluator(ground);
  const Mesh mesh = testing::mesh("tp=2");
  Candidate candidate;
  candidate.padding = Padding{{0, 1}, 0, 10};
  const auto padded = evaluator.judge(candidate, mesh, kMeshSides, diags);
  REQUIRE(padded);
  CHECK(padded->memory.max == 2 * 40 + 9);
  candidate.padding = Padding{{0}, 0, 10};
  CHECK_FALSE(evaluator.judge(candidate, mesh, kMeshSides, diags));
}

}  // namespace
}  // namespace shardplan
