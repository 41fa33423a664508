// SPDX-License-Identifier: Apache-2.0
#include "resolve/resolve.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"
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

TEST_CASE("declarations store dimensions otherwise, and totals stay") {
  Manifest model =
      testing::manifest({{"embed_tokens.weight", "bf16[50, 8]"},
                         {"layers.0.self_attn.q_proj.weight", "bf16[32, 8]"},
                         {"layers.0.self_attn.k_proj.weight", "bf16[8, 8]"},
                         {"layers.0.self_attn.v_proj.weight", "bf16[8, 8]"},
                         {"layers.0.mlp.w.weight", "bf16[8, 8]"}});
  model.facts.from = FactsFrom::Manifest;
  model.facts.heads = 8;
  model.facts.kv_heads = 2;
  model.facts.head_dim = 4;
  ResolveOptions options;
  options.declarations.replicate_kv_heads = true;
  options.declarations.pad_vocab = 16;
  Diagnostics diags;
  const auto plan = resolve(model, testing::rules({{"", "(fsdp, tp)"}}),
                            testing::mesh("fsdp=2,tp=4"), options, diags);
  REQUIRE(plan.has_value());
  CHECK(plan->declarations == options.declarations);
  // 64 is the smallest multiple of 16 that 8 shards divide.
  CHECK(plan->of(0).local_shape == Shape{8, 8});
  CHECK(plan->of(1).stored.empty());
  CHECK(plan->of(1).local_shape == Shape{4, 8});
  // Four KV heads of 4 rows instead of two.
  CHECK(plan->of(2).local_shape == Shape{2, 8});
  CHECK(plan->of(2).bytes_per_device == 2 * 8 * 2);
  CHECK(plan->placement_of[2] == plan->placement_of[3]);
  // Of the same type and rule as k_proj, but no heads.
  CHECK(plan->placement_of[4] != plan->placement_of[3]);
  CHECK(plan->of(4).local_shape == Shape{1, 8});
  CHECK(plan->of(2).type == plan->of(4).type);
}

TEST_CASE("what an axis loses in correction is not stored for it") {
  Manifest model =
      testing::manifest({{"layers.0.self_attn.k_proj.weight", "bf16[8, 8]"},
                         {"lm_head.weight", "bf16[50, 8]"}});
  model.facts.from = FactsFrom::Manifest;
  model.facts.heads = 8;
  model.facts.kv_heads = 2;
  model.facts.head_dim = 4;
  ResolveOptions options;
  options.declarations.replicate_kv_heads = true;
  options.declarations.pad_vocab = 16;
  Diagnostics diags;
  // Four heads of 4 rows are stored in 16 rows, which 3 x 4 does not divide.
  const auto plan = resolve(model, testing::rules({{"", "(fsdp, tp)"}}),
                            testing::mesh("fsdp=3,tp=4"), options, diags);
  REQUIRE(plan.has_value());
  CHECK(plan->of(0).spec.dims.empty());
  CHECK(plan->of(0).stored.empty());
  CHECK(plan->of(0).local_shape == Shape{8, 8});
  CHECK(plan->of(1).stored.at(0).size == 96);
  // An axis that is unknown shards nothing, so it is not padded for.
  const auto unknown = resolve(model, testing::rules({{"", "model"}}),
                               testing::mesh("fsdp=3,tp=4"), options, diags);
  REQUIRE(unknown.has_value());
  CHECK(unknown->of(1).stored.at(0).size == 64);
}

TEST_CASE("a tensor that exceeds 63 bits as declared is refused") {
  const Manifest model =
      testing::manifest({{"lm_head.weight", "u8[3, 3000000000000000000]"}});
  ResolveOptions options;
  options.declarations.pad_vocab = 4;
  Diagnostics diags;
  CHECK(!resolve(model, testing::rules({{"", ""}}), testing::mesh("tp=2"),
                 options, diags));
  CHECK(diags.cannot_run());
}

TEST_CASE("logical axes place what no rule is found in") {
  Manifest manifest = testing::manifest(
      {{"a", "f32[8, 8]"}, {"b", "f32[8, 8]"}, {"c", "f32[8, 8]"}});
  manifest.set_axes(0, {"embed", "mlp"});
  manifest.set_axes(1, {"embed", "mlp"});
  RuleSet rules = testing::rules({{"b", "None, fsdp"}});
  rules.logical_rules = {{"mlp", {"tp"}, {}, {}}, {"embed", {"fsdp"}, {}, {}}};
  const Plan plan = resolved(manifest, rules);
  CHECK(plan.of(0).rule == 0);
  CHECK(*plan.of(0).requested == spec("embed, mlp"));
  CHECK(plan.of(0).asked() == spec("fsdp, tp"));
  CHECK(plan.of(0).spec == spec("fsdp, tp"));
  CHECK(plan.of(0).logical_rules == std::vector<int>{2, 1});
  CHECK_FALSE(plan.is_unmatched(plan.of(0)));
  CHECK(plan.of(1).rule == 1);
  CHECK(plan.of(1).spec == spec("None, fsdp"));
  CHECK(plan.is_unmatched(plan.of(2)));
  rules.logical_rules.clear();
  const Plan without = resolved(manifest, rules);
  CHECK(without.is_unmatched(without.of(0)));
}

TEST_CASE("a spec may be of the last dimensions, whatever the rank") {
  const Manifest manifest = testing::manifest(
      {{"w", "f32[8, 8]"}, {"stacked/w", "f32[4, 8, 8]"}, {"w1", "f32[8]"}});
  RuleSet rules = testing::rules({{"w", "tp, None"}});
  rules.rules[0].from_last = true;
  const Plan plan = resolved(manifest, rules);
  CHECK(plan.of(0).spec == spec("tp, None"));
  CHECK(plan.of(1).spec == spec("None, tp, None"));
  CHECK(plan.of(2).spec == PartitionSpec());
}

TEST_CASE("a dimension of one decides that semantic axes are for decoding") {
  const Manifest manifest =
      testing::manifest({{"w", "f32[8, 1]"}, {"v", "f32[8, 8]"}});
  RuleSet rules = testing::rules({{"", "HEAD"}});
  Diagnostics diags;
  PartitionAxis axis = default_partition_axis();
  axis[*find_partition_field("decode_head_axis")] = AxisValue{{"fsdp"}};
  rules.partition_axis = resolve_partition_axis(axis, diags);
  for (const int dim : {1, -1}) {
    rules.rules[0].decode_dim = dim;
    const Plan plan = resolved(manifest, rules);
    CHECK(plan.of(0).spec == spec("fsdp, None"));
    CHECK(plan.of(1).spec == spec("tp, None"));
  }
}

TEST_CASE("patterns of activations are compiled with the rules") {
  const Manifest manifest = testing::manifest({{"w", "f32[8]"}});
  const RuleSet rules =
      testing::read_rules("rules: [[w, []]]\nactivations: [['(', []]]\n");
  Diagnostics diags;
  CHECK_FALSE(
      resolve(manifest, rules, testing::mesh("tp=2"), {}, diags).has_value());
  CHECK(diags.all().front().code == Code::UnsupportedPattern);
}

}  // namespace
}  // namespace shardplan
