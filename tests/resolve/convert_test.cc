// SPDX-License-Identifier: Apache-2.0
#include "resolve/convert.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

using testing::mesh;

Plan resolved(const Manifest& manifest, const RuleSet& rules, const Mesh& on,
              const ResolveOptions& options = {}) {
  Diagnostics diags;
  auto plan = resolve(manifest, rules, on, options, diags);
  REQUIRE(plan);
  return *std::move(plan);
}

Plan converted(const Manifest& manifest, const Plan& saved, const Mesh& on,
               const ConvertOptions& options = {}) {
  Diagnostics diags;
  auto plan = convert_plan(manifest, saved, on, options, diags);
  REQUIRE(plan);
  return *std::move(plan);
}

TEST_CASE("what was requested is placed on the new mesh") {
  const Manifest model = testing::manifest({{"w", "f32[12, 8]"},
                                            {"v", "f32[6, 8]"},
                                            {"free", "f32[16, 4]"},
                                            {"step", "i32[]"}});
  const RuleSet rules = testing::rules({{"w", "fsdp, tp"}, {"v", "tp, fsdp"}});
  const Plan saved = resolved(model, rules, mesh("fsdp=4,tp=2"));
  REQUIRE(saved.of(1).spec == testing::spec("tp, fsdp"));
  const Plan plan = converted(model, saved, mesh("fsdp=2,tp=4"));
  CHECK(plan.of(0).spec == testing::spec("fsdp, tp"));
  CHECK(plan.of(0).local_shape == Shape{6, 2});
  CHECK(plan.of(1).spec == testing::spec("None, fsdp"));
  REQUIRE(plan.of(1).corrections.size() == 1);
  CHECK(plan.of(1).corrections[0].code == Code::IndivisibleDimension);
  CHECK(plan.of(1).rule == 2);
  CHECK(plan.is_unmatched(plan.of(2)));
  CHECK_FALSE(plan.is_unmatched(plan.of(3)));
  CHECK(plan.rules == saved.rules);
}

TEST_CASE("an axis that the new mesh lacks is unknown unless it is declared") {
  const Manifest model = testing::manifest({{"w", "f32[12, 8]"}});
  const RuleSet rules = testing::rules({{"w", "(fsdp, tp)"}});
  const Plan saved = resolved(model, rules, mesh("fsdp=2,tp=2"));
  const Plan without = converted(model, saved, mesh("fsdp=4"));
  CHECK(without.of(0).spec.dims.empty());
  REQUIRE(without.of(0).corrections.size() == 1);
  CHECK(without.of(0).corrections[0].code == Code::UnknownAxis);
  const Plan declared =
      converted(model, saved, mesh("fsdp=4"), {{"tp"}, false});
  CHECK(declared.of(0).spec == testing::spec("fsdp, None"));
  CHECK(declared.declared_axes == AxisNames{"tp"});
}

TEST_CASE("small arrays stay replicated, with their reason") {
  const Manifest model =
      testing::manifest({{"w", "f32[8]"}, {"big", "f32[64]"}});
  const RuleSet rules = testing::rules({{".", "tp"}});
  ResolveOptions options;
  options.min_size = 10;
  const Plan saved = resolved(model, rules, mesh("tp=2"), options);
  const Plan plan = converted(model, saved, mesh("tp=4"));
  CHECK(plan.of(0).spec.dims.empty());
  CHECK(plan.of(0).corrections == saved.of(0).corrections);
  CHECK(plan.of(0).requested == testing::spec("tp"));
  CHECK(plan.of(1).shards == 4);
}

TEST_CASE("what no rule matched is placed by size only when asked") {
  const Manifest model = testing::manifest({{"w", "f32[12, 8]"}});
  const Plan saved =
      resolved(model, testing::rules({{"x", "tp"}}), mesh("tp=2"));
  CHECK(converted(model, saved, mesh("tp=4")).of(0).shards == 1);
  const Plan plan = converted(model, saved, mesh("tp=4"), {{}, true});
  CHECK(plan.of(0).spec == testing::spec("tp, None"));
  CHECK(plan.of(0).rule == 0);
  CHECK_FALSE(plan.of(0).requested);
}

TEST_CASE("converting is resolving again on the new mesh") {
  CHECK(rc::check("as the rules would", [] {
    const Manifest model = *testing::gen::manifest();
    RuleSet rules;
    for (const char* pattern : {"q_proj", "up", "scale", "."}) {
      Rule& rule = rules.rules.emplace_back();
      rule.pattern = pattern;
      rule.spec = *testing::gen::any_spec();
    }
    ResolveOptions options;
    options.strict = *rc::gen::arbitrary<bool>();
    options.on_indivisible =
        *rc::gen::element(OnIndivisible::Drop, OnIndivisible::Prefix,
                          OnIndivisible::Pad, OnIndivisible::Chunk);
    const Mesh before = *testing::gen::mesh();
    const Mesh after = *testing::gen::mesh();
    Diagnostics diags;
    const auto saved = resolve(model, rules, before, options, diags);
    const auto expected = resolve(model, rules, after, options, diags);
    RC_ASSERT(saved && expected);
    const auto plan = convert_plan(model, *saved, after, {}, diags);
    RC_ASSERT(plan.has_value());
    for (size_t i = 0; i < model.size(); ++i) {
      RC_ASSERT(plan->of(i).spec == expected->of(i).spec);
      RC_ASSERT(plan->of(i).rule == expected->of(i).rule);
      RC_ASSERT(plan->of(i).requested == expected->of(i).requested);
      RC_ASSERT(plan->of(i).corrections == expected->of(i).corrections);
    }
  }));
}

}  // namespace
}  // namespace shardplan
