// SPDX-License-Identifier: Apache-2.0
#include "advise/what_if.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::Advised;
using testing::advised;
using testing::spec;

// The effect of a change on the first finding with a code.
std::optional<Effect> effect_of(const Advised& plan, Code code,
                                const Placing& change) {
  const auto memory = [&] {
    Diagnostics ignored;
    return *device_memory(plan.manifest, plan.plan, ignored);
  }();
  const Folding folding = fold(plan.plan.placement_of,
                               [&](size_t i) { return plan.manifest.name(i); });
  std::vector<const Diagnostic*> findings;
  for (const Diagnostic& finding : plan.diags.all()) {
    findings.push_back(&finding);
  }
  WhatIf trial({plan.manifest, plan.rules, plan.plan, folding, memory,
                plan.resolving, plan.linting},
               findings, plan.diags);
  for (const Diagnostic* finding : findings) {
    if (finding->code != code) continue;
    return trial.effect(change, *finding, trial.parameters_of(*finding));
  }
  throw std::invalid_argument("no such finding");
}

RuleChange set_spec(const std::string& text) {
  RuleChange change;
  change.spec = spec(text);
  return change;
}

TEST_CASE("a trial measures what a change does") {
  const Advised plan =
      advised(testing::manifest({{"a/w", "u8[9, 8]"}, {"b/w", "u8[9, 8]"}}),
              "rules:\n  - [w, [tp]]\n", testing::mesh("tp=2"));
  Placing change;
  change.rules = {set_spec("None, tp")};
  const auto moved = effect_of(plan, Code::IndivisibleDimension, change);
  REQUIRE(moved);
  CHECK(moved->bytes_per_device == -72);  // both 72 bytes halved
  CHECK(moved->finding_bytes_per_device == -72);

  change.rules.clear();
  change.mesh = resized(plan.mesh, {"tp", 3});
  CHECK(effect_of(plan, Code::IndivisibleDimension, change)->bytes_per_device ==
        -96);
  change.mesh = resized(plan.mesh, {"tp", 4});  // does not divide either
  CHECK_FALSE(effect_of(plan, Code::IndivisibleDimension, change));
  CHECK_FALSE(resized(plan.mesh, {"tp", int64_t{1} << 50}));

  change.mesh.reset();
  change.padding = Padding{{0, 1}, 0, 10};
  CHECK(effect_of(plan, Code::IndivisibleDimension, change)->bytes_per_device ==
        -64);                            // 2 x (72 - 40)
  change.padding = Padding{{0}, 0, 10};  // the other one still does not divide
  CHECK_FALSE(effect_of(plan, Code::IndivisibleDimension, change));
  change.padding = Padding{{0, 1}, 0, INT64_MAX};  // beyond 63 bits
  CHECK_FALSE(effect_of(plan, Code::IndivisibleDimension, change));
}

TEST_CASE("a change that brings an error is refused") {
  const Advised plan =
      advised(testing::manifest({{"w", "u8[9, 8]"}}), "rules:\n  - [w, [tp]]\n",
              testing::mesh("tp=2"));
  Placing change;
  change.rules = {set_spec("None, tq")};  // SP201
  CHECK_FALSE(effect_of(plan, Code::IndivisibleDimension, change));
  change.rules = {set_spec("None, tp")};
  change.rules.front().kind = RuleChange::Kind::SetPattern;
  change.rules.front().pattern = "(";  // cannot be compiled
  CHECK_FALSE(effect_of(plan, Code::IndivisibleDimension, change));
}

TEST_CASE("a changed rule set is matched as it would be from scratch") {
  CHECK(holds(
      "moving and adding rules in a trial gives what resolving "
      "gives",
      [] {
        std::string text = "rules:\n";
        for (int i = 0; i < 4; ++i) {
          text +=
              "  - [\"" +
              draw_of<std::string>({"kernel", "/1/", "q_proj", "bias", "."}) +
              "\", " + draw_of<std::string>({"[]", "[tp]", "[null, tp]"}) +
              "]\n";
        }
        // A finding that the change removes: an unknown axis.
        text += "  - [never, [nowhere]]\n";
        const Advised plan =
            advised(testing::draw_manifest(), text, testing::mesh("tp=2"));
        Placing change;
        change.rules = {set_spec("")};
        change.rules.front().rule = 5;
        const auto effect = effect_of(plan, Code::UnknownAxis, change);
        ENSURE(effect.has_value());
        ENSURE(effect->bytes_per_device == 0);
      }));
}

TEST_CASE("findings are the same by what they are about") {
  const Advised plan =
      advised(testing::manifest({{"a", "u8[9, 9]"}, {"b", "u8[9]"}}),
              "rules:\n  - [\".\", [tp, tp]]\n", testing::mesh("tp=2"));
  const auto found = plan.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 3);
  CHECK_FALSE(FindingsLeft(plan.diags, plan.plan).is_gone(found[0], plan.plan));
  Diagnostics others;
  others.add(found[1]);
  CHECK(FindingsLeft(others, plan.plan).is_gone(found[0], plan.plan));
  CHECK(finding_counts(plan.diags) > finding_counts(others));
}

}  // namespace

}  // namespace shardplan
