// SPDX-License-Identifier: Apache-2.0
#include "memory/state_rules.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/placed.h"

namespace shardplan {
namespace {

TEST_CASE("rules place leaves under their role and the parameter's name") {
  const Manifest manifest =
      testing::manifest({{"w", "bf16[8, 4]"}, {"b", "bf16[4]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", "tp"}}), "dp=2,tp=2");
  StateOptions options;
  options.optimizer = Optimizer::AdamW;
  Diagnostics diags;
  const auto specs = resolve_state_rules(
      manifest, plan, options,
      testing::rules({{"^mu/w$", "(dp, tp)"}, {"^nu/", "dp"}}), {}, diags);
  REQUIRE(specs);
  CHECK(specs->leaves.size() == 4);
  CHECK(specs->leaves.name(0) == "mu/w");
  CHECK(type_text(specs->leaves.type(0)) == "f32[8, 4]");
  const StateSpecs::Kind& kind = specs->kinds[specs->kind_of[0]];
  CHECK(spec_text(kind.specs.at("mu")) == "P((dp, tp), None)");
  CHECK(spec_text(kind.specs.at("nu")) == "P(dp, None)");
  // No rule is found in mu/b: replicated, and a finding of the leaves' plan.
  CHECK(spec_text(specs->kinds[specs->kind_of[1]].specs.at("mu")) == "P()");
  CHECK(specs->plan.is_unmatched(specs->plan.of(2)));
}

TEST_CASE("placeholders and counters are not asked for") {
  const Manifest manifest = testing::manifest({{"w", "f32[256, 128]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=2");
  StateOptions options;
  options.optimizer = Optimizer::Adafactor;
  Diagnostics diags;
  const auto specs = resolve_state_rules(
      manifest, plan, options, testing::rules({{".", "dp"}}), {}, diags);
  REQUIRE(specs);
  CHECK(specs->leaves.size() == 2);
  CHECK(specs->leaves.name(0) == "v_row/w");
  CHECK(specs->leaves.name(1) == "v_col/w");
}

TEST_CASE("a pattern that cannot be compiled leaves no specs") {
  const Manifest manifest = testing::manifest({{"w", "f32[8]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "dp=2");
  StateOptions options;
  options.optimizer = Optimizer::Lion;
  Diagnostics diags;
  CHECK_FALSE(resolve_state_rules(
      manifest, plan, options, testing::rules({{"(?=w)", "dp"}}), {}, diags));
  CHECK(diags.cannot_run());
}

}  // namespace
}  // namespace shardplan
