// SPDX-License-Identifier: Apache-2.0
#include "resolve/resolve.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::spec;

Plan resolved(const Manifest& manifest, const RuleSet& rules,
              const ResolveOptions& options = {}) {
  Diagnostics diags;
  const auto plan =
      resolve(manifest, rules, testing::mesh("fsdp=4,tp=2"), options, diags);
  REQUIRE(plan.has_value());
  return *plan;
}

TEST_CASE("scalars are placed without asking the rules when strict") {
  const Manifest manifest =
      testing::manifest({{"scale", "f32[]"}, {"one", "f32[1]"}});
  const RuleSet rules = testing::rules({{".*", "fsdp"}});
  const Plan strict = resolved(manifest, rules);
  CHECK(strict.of(0).rule == 0);
  CHECK_FALSE(strict.of(0).requested.has_value());
  CHECK_FALSE(strict.is_unmatched(strict.of(0)));
  // A size of 1 is no scalar.
  CHECK(strict.of(1).rule == 1);
  CHECK(strict.rules[0].found == 2);
  CHECK(strict.rules[0].won == 1);
  ResolveOptions verbatim;
  verbatim.strict = false;
  const Plan plan = resolved(manifest, rules, verbatim);
  CHECK(plan.of(0).rule == 1);
  CHECK(plan.of(0).corrections.at(0).code == Code::SpecLongerThanRank);
  const RuleSet none = testing::rules({{"x", ""}});
  const Plan unmatched = resolved(manifest, none, verbatim);
  CHECK(unmatched.is_unmatched(unmatched.of(0)));
}

TEST_CASE("small arrays are replicated, but keep the rule that matched") {
  const Manifest manifest =
      testing::manifest({{"a", "f32[15]"}, {"b", "f32[16]"}, {"c", "f32[8]"}});
  ResolveOptions options;
  options.min_size = 16;
  const RuleSet rules = testing::rules({{"[ab]", "tp"}});
  const Plan plan = resolved(manifest, rules, options);
  CHECK(plan.of(0).rule == 1);
  CHECK(plan.of(0).spec == spec(""));
  CHECK(plan.of(0).corrections.at(0).code == Code::SmallParameter);
  CHECK(plan.of(0).corrections.at(0).dropped == AxisNames{"tp"});
  CHECK(plan.of(1).spec == spec("tp"));
  // Too small, but no rule was found: size is looked at after a match.
  CHECK(plan.is_unmatched(plan.of(2)));
  options.strict = false;
  CHECK(resolved(manifest, rules, options).of(0).corrections.at(0).code ==
        Code::IndivisibleDimension);
}

TEST_CASE("matched_spec cuts to the rank and pads nothing") {
  const ResolveOptions options;
  CHECK(matched_spec(spec("None, None, tp"), {2, 2}, options) ==
        spec("None, None"));
  CHECK(matched_spec(spec("tp"), {2, 2}, options) == spec("tp"));
}

TEST_CASE("a plan remembers its rules and who shadows whom") {
  const Manifest manifest = testing::manifest(
      {{"q/w", "f32[8]"}, {"k/w", "f32[8]"}, {"v/b", "f32[8]"}});
  const RuleSet rules = testing::rules(
      {{"q", "tp"}, {"k", "tp"}, {"w", "fsdp"}, {"w|b", ""}, {"z", ""}});
  const Plan plan = resolved(manifest, rules);
  REQUIRE(plan.rules.size() == 5);
  CHECK(plan.rules[2].line == 3);
  CHECK(plan.rules[2].shadowed_by == std::vector<int>{1, 2});
  CHECK(plan.rules[3].found == 3);
  CHECK(plan.rules[3].won == 1);
  CHECK(plan.rules[3].shadowed_by.empty());
  CHECK(plan.rules[4].found == 0);
}

}  // namespace
}  // namespace shardplan
