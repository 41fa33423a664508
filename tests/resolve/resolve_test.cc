// SPDX-License-Identifier: Apache-2.0
#include "resolve/resolve.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::mesh;
using testing::spec;
using testing::type;

// "1: 1024 -> 2048 why"
std::string stored(const std::string& name, const std::string& of,
                   const std::string& by, const std::string& on,
                   const std::vector<std::string>& texts,
                   Facts facts = testing::attention_facts(32, 8, 128)) {
  Declarations declared;
  for (const std::string& text : texts) {
    REQUIRE(add_declaration(text, declared));
  }
  const UnitFacts known{std::move(facts), {}, {}};
  std::string result;
  for (const StoredDim& dim :
       stored_dims(name, type(of), spec(by), mesh(on), declared, known)) {
    if (!result.empty()) result += "; ";
    result += std::to_string(dim.dim) + ": " + std::to_string(dim.size) + " " +
              dim.why;
  }
  return result;
}

TEST_CASE("a vocabulary is padded to the multiple that its shards divide") {
  const std::string name = "embed_tokens.weight";
  CHECK(stored(name, "bf16[50257, 8]", "tp, None", "tp=4", {"pad-vocab=128"}) ==
        "0: 50304 pad-vocab=128: smallest multiple that 4 shards divide");
  CHECK(stored(name, "bf16[50257, 8]", "", "tp=4", {"pad-vocab=128"}) ==
        "0: 50304 pad-vocab=128: smallest multiple");
  // lcm(128, 3) = 384 x 131; all axes count, those of the batch too.
  CHECK(stored(name, "bf16[50257, 8]", "fsdp", "fsdp=3", {"pad-vocab=128"}) ==
        "0: 50304 pad-vocab=128: smallest multiple that 3 shards divide");
  CHECK(stored(name, "bf16[50257, 8]", "fsdp", "fsdp=5", {"pad-vocab=1"}) ==
        "0: 50260 pad-vocab=1: smallest multiple that 5 shards divide");
  CHECK(
      stored(name, "bf16[50304, 8]", "tp", "tp=4", {"pad-vocab=128"}).empty());
  CHECK(stored("wpe.weight", "bf16[1023, 8]", "tp", "tp=4", {"pad-vocab=128"})
            .empty());
}

TEST_CASE("axes that gather a weight do not replicate its KV heads") {
  const std::string name = "self_attn.k_proj.weight";
  const std::vector<std::string> copies = {"replicate-kv-heads"};
  const std::string why =
      "0: 2048 replicate-kv-heads: one of 8 KV heads on each of 16 shards";
  CHECK(stored(name, "bf16[1024, 64]", "tp", "tp=16", copies) == why);
  CHECK(stored(name, "bf16[1024, 64]", "(fsdp, tp)", "fsdp=2,tp=16", copies) ==
        why);
  CHECK(stored(name, "bf16[1024, 64]", "fsdp", "fsdp=16", copies).empty());
  CHECK(stored(name, "bf16[1024, 64]", "None, tp", "tp=16", copies).empty());
  CHECK(stored(name, "bf16[1024, 64]", "tp", "tp=16", {}).empty());
}

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
  // A size of 1 is not a scalar.
  CHECK(strict.of(1).rule == 1);
  CHECK(strict.rules[0].matched == 2);
  CHECK(strict.rules[0].decided == 1);
  ResolveOptions verbatim;
  verbatim.strict = false;
  const Plan plan = resolved(manifest, rules, verbatim);
  CHECK(plan.of(0).rule == 1);
  CHECK(plan.of(0).corrections.at(0).code == Code::SpecLongerThanRank);
  const RuleSet none = testing::rules({{"x", ""}});
  const Plan unmatched = resolved(manifest, none, verbatim);
  CHECK(unmatched.is_unmatched(unmatched.of(0)));
}

TEST_CASE("a semantic axis is an axis of that name, but for eFormer") {
  const Manifest manifest = testing::manifest({{"w", "f32[8, 8]"}});
  const RuleSet rules = testing::rules({{"w", "TP, None"}});
  const auto on = [&](const char* devices, bool parity) {
    ResolveOptions options;
    options.parity = parity;
    Diagnostics diags;
    const auto plan = resolve(manifest, rules, mesh(devices), options, diags);
    REQUIRE(plan.has_value());
    return spec_text(plan->of(0).spec);
  };
  CHECK(on("TP=2,tp=4", false) == "P(TP, None)");
  CHECK(on("TP=2,tp=4", true) == "P(tp, None)");
  CHECK(on("TP=2", true) == "P()");
  CHECK(on("tp=4", false) == "P(tp, None)");
}

TEST_CASE("a mode of a dimension that the array lacks is that of training") {
  const Manifest manifest =
      testing::manifest({{"a", "f32[8]"}, {"b", "f32[8, 1]"}});
  RuleSet rules = testing::rules({{".*", "HEAD"}});
  rules.rules[0].decode_dim = 1;
  rules.partition_axis = default_partition_axis();
  rules.partition_axis->at(*find_partition_field("head_axis")) =
      AxisValue{{"tp"}, false};
  rules.partition_axis->at(*find_partition_field("decode_head_axis")) =
      AxisValue{{"fsdp"}, false};
  Diagnostics diags;
  rules.partition_axis = resolve_partition_axis(*rules.partition_axis, diags);
  REQUIRE(rules.partition_axis.has_value());
  const auto plan =
      resolve(manifest, rules, mesh("fsdp=2,tp=4"), ResolveOptions(), diags);
  REQUIRE(plan.has_value());
  CHECK(plan->of(0).spec == spec("tp"));
  CHECK(spec_text(plan->of(1).spec) == "P(fsdp, None)");
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

TEST_CASE("a plan remembers its rules and who shadows whom") {
  const Manifest manifest = testing::manifest(
      {{"q/w", "f32[8]"}, {"k/w", "f32[8]"}, {"v/b", "f32[8]"}});
  const RuleSet rules = testing::rules(
      {{"q", "tp"}, {"k", "tp"}, {"w", "fsdp"}, {"w|b", ""}, {"z", ""}});
  const Plan plan = resolved(manifest, rules);
  REQUIRE(plan.rules.size() == 5);
  CHECK(plan.rules[2].line == 3);
  CHECK(plan.rules[2].shadowed_by == std::vector<int>{1, 2});
  CHECK(plan.rules[3].matched == 3);
  CHECK(plan.rules[3].decided == 1);
  CHECK(plan.rules[3].shadowed_by.empty());
  CHECK(plan.rules[4].matched == 0);
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
  CHECK(plan->of(1).stored_dims.empty());
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
  CHECK(plan->of(0).stored_dims.empty());
  CHECK(plan->of(0).local_shape == Shape{8, 8});
  CHECK(plan->of(1).stored_dims.at(0).size == 96);
  // An axis that is unknown shards nothing, so it is not padded for.
  const auto unknown = resolve(model, testing::rules({{"", "model"}}),
                               testing::mesh("fsdp=3,tp=4"), options, diags);
  REQUIRE(unknown.has_value());
  CHECK(unknown->of(1).stored_dims.at(0).size == 64);
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

TEST_CASE("logical axes place what no rule matches") {
  Manifest manifest = testing::manifest(
      {{"a", "f32[8, 8]"}, {"b", "f32[8, 8]"}, {"c", "f32[8, 8]"}});
  manifest.set_axes(0, {"embed", "mlp"});
  manifest.set_axes(1, {"embed", "mlp"});
  RuleSet rules = testing::rules({{"b", "None, fsdp"}});
  rules.logical_rules = {{"mlp", {"tp"}, {}, {}}, {"embed", {"fsdp"}, {}, {}}};
  const Plan plan = resolved(manifest, rules);
  CHECK(plan.of(0).rule == 0);
  CHECK(*plan.of(0).requested == spec("embed, mlp"));
  CHECK(plan.of(0).requested_spec() == spec("fsdp, tp"));
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

Plan plan_of(const Manifest& manifest, const RuleSet& rules, const Mesh& on,
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
  const Plan saved = plan_of(model, rules, mesh("fsdp=4,tp=2"));
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
  const Plan saved = plan_of(model, rules, mesh("fsdp=2,tp=2"));
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
  const Plan saved = plan_of(model, rules, mesh("tp=2"), options);
  const Plan plan = converted(model, saved, mesh("tp=4"));
  CHECK(plan.of(0).spec.dims.empty());
  CHECK(plan.of(0).corrections == saved.of(0).corrections);
  CHECK(plan.of(0).requested == testing::spec("tp"));
  CHECK(plan.of(1).shards == 4);
}

TEST_CASE("what no rule matched is placed by size only when asked") {
  const Manifest model = testing::manifest({{"w", "f32[12, 8]"}});
  const Plan saved =
      plan_of(model, testing::rules({{"x", "tp"}}), mesh("tp=2"));
  CHECK(converted(model, saved, mesh("tp=4")).of(0).shards == 1);
  const Plan plan = converted(model, saved, mesh("tp=4"), {{}, true});
  CHECK(plan.of(0).spec == testing::spec("tp, None"));
  CHECK(plan.of(0).rule == 0);
  CHECK_FALSE(plan.of(0).requested);
}

TEST_CASE("converting is resolving again on the new mesh") {
  CHECK(holds("as the rules would", [] {
    const Manifest model = testing::draw_manifest();
    RuleSet rules;
    for (const char* pattern : {"q_proj", "up", "scale", "."}) {
      Rule& rule = rules.rules.emplace_back();
      rule.pattern = pattern;
      rule.spec = testing::draw_any_spec();
    }
    ResolveOptions options;
    options.strict = draw_bool();
    options.on_indivisible =
        draw_of({OnIndivisible::Drop, OnIndivisible::Prefix, OnIndivisible::Pad,
                 OnIndivisible::Chunk});
    const Mesh before = testing::draw_mesh();
    const Mesh after = testing::draw_mesh();
    Diagnostics diags;
    const auto saved = resolve(model, rules, before, options, diags);
    const auto expected = resolve(model, rules, after, options, diags);
    ENSURE(saved && expected);
    const auto plan = convert_plan(model, *saved, after, {}, diags);
    ENSURE(plan.has_value());
    for (size_t i = 0; i < model.size(); ++i) {
      ENSURE(plan->of(i).spec == expected->of(i).spec);
      ENSURE(plan->of(i).rule == expected->of(i).rule);
      ENSURE(plan->of(i).requested == expected->of(i).requested);
      ENSURE(plan->of(i).corrections == expected->of(i).corrections);
    }
  }));
}

}  // namespace

}  // namespace shardplan
