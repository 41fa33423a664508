// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_file.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::messages;

std::string written(const Manifest& manifest, const Plan& plan) {
  std::string text;
  CHECK(write_plan(manifest, plan, [&](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

Placement placement(const std::string& type, const std::string& spec) {
  Placement placement;
  placement.type = testing::type(type);
  placement.spec = testing::spec(spec);
  return placement;
}

TEST_CASE("a plan is written with one placement and one parameter per line") {
  const Manifest manifest = [] {
    Manifest made = testing::manifest(
        {{"wq", "bf16[8, 6]"}, {"\"x\"", "f32[3]"}, {"wk", "bf16[8, 6]"}});
    made.title = "m.json";
    made.model_name = "tiny";
    made.facts.from = FactsFrom::Config;
    made.facts.heads = 4;
    made.facts.windows = {16, 0};
    return made;
  }();
  Plan plan{testing::mesh("fsdp=2,tp=4"),
            OnIndivisible::Prefix,
            true,
            {"ep"},
            {},
            {},
            {}};
  PlanRule rule;
  rule.pattern = "w";
  rule.spec = testing::spec("(tp, fsdp), tp");
  rule.file = "rules.yaml";
  rule.line = 3;
  rule.found = 2;
  rule.won = 2;
  plan.rules.push_back(rule);
  plan.placements.push_back(placement("bf16[8, 6]", "(tp, fsdp), None"));
  plan.placements[0].rule = 1;
  plan.placements[0].requested = rule.spec;
  plan.placements[0].corrections.push_back(
      {1, Code::IndivisibleDimension, {"tp"}, "6 is not divisible by tp=4"});
  plan.placements.push_back(placement("f32[3]", ""));
  plan.placement_of = {0, 1, 0};
  CHECK(written(manifest, plan) ==
        R"({"schema":"shardplan.plan/1",
"model":"m.json",
"name":"tiny",
"format":"native",
"facts":{"from":"config","heads":4,"windows":[16,0]},
"mesh":[["fsdp",2],["tp",4]],
"on_indivisible":"prefix",
"strict":true,
"declared_axes":["ep"],
"rules":[
{"pattern":"w","spec":[["tp","fsdp"],"tp"],"file":"rules.yaml","line":3,"shipped":false,"found":2,"won":2,"shadowed_by":[]}
],
"placements":[
{"dtype":"bf16","shape":[8,6],"rule":1,"requested":[["tp","fsdp"],"tp"],"spec":[["tp","fsdp"],null],"corrections":[{"dim":1,"code":"SP203","dropped":["tp"],"reason":"6 is not divisible by tp=4"}]},
{"dtype":"f32","shape":[3],"rule":null,"requested":null,"spec":[],"corrections":[]}
],
"parameters":[
["wq",0],
["\"x\"",1],
["wk",0]
]}
)");
}

TEST_CASE("writing stops when nobody takes the text") {
  const Manifest manifest = testing::manifest({{"a", "f32[]"}});
  Plan plan{testing::mesh("tp=2"), OnIndivisible::Drop, true, {}, {}, {}, {0}};
  plan.placements.push_back(placement("f32[]", ""));
  CHECK_FALSE(
      write_plan(manifest, plan, [](std::string_view) { return false; }));
}

TEST_CASE("a large plan is written in pieces") {
  Manifest manifest;
  Plan plan{testing::mesh("tp=2"), OnIndivisible::Drop, true, {}, {}, {}, {}};
  plan.placements.push_back(placement("f32[2]", "tp"));
  for (int i = 0; i < 20000; ++i) {
    REQUIRE(manifest.add("layers/" + std::to_string(i) + "/wq",
                         plan.placements[0].type, {}));
    plan.placement_of.push_back(0);
  }
  size_t pieces = 0;
  size_t largest = 0;
  CHECK(write_plan(manifest, plan, [&](std::string_view piece) {
    ++pieces;
    largest = std::max(largest, piece.size());
    return true;
  }));
  CHECK(pieces > 4);
  CHECK(largest < 100000);
}

TEST_CASE("a plan is recognised by its beginning") {
  CHECK(is_plan(R"({"schema":"shardplan.plan/1",)"));
  CHECK(is_plan(" \n{ \"schema\" : \"shardplan.plan/2\""));
  CHECK_FALSE(is_plan(R"({"parameters": {}})"));
  CHECK_FALSE(is_plan(R"("schema":"shardplan.plan/1")"));
  CHECK_FALSE(is_plan(""));
  CHECK_FALSE(is_plan("{" + std::string(1000, ' ') +
                      R"("schema":"shardplan.plan/1"})"));
}

// A plan with everything in it, legal for its mesh.
Plan any_plan(const Manifest& manifest) {
  const Mesh mesh = *testing::gen::mesh();
  Plan plan{mesh,
            *rc::gen::element(OnIndivisible::Pad, OnIndivisible::Chunk),
            *rc::gen::arbitrary<bool>(),
            {"ep"},
            {},
            {},
            {}};
  const auto rules = *rc::gen::inRange(0, 3);
  for (int i = 0; i < rules; ++i) {
    PlanRule rule;
    rule.pattern = *rc::gen::element<std::string>("w.*\\.q", "\"\u00e9\n", "");
    rule.spec = *testing::gen::any_spec();
    rule.file = "r.yaml";
    rule.line = i;
    rule.shipped = i == 0;
    rule.shadowed_by = {1};
    plan.rules.push_back(rule);
  }
  for (size_t i = 0; i < manifest.size(); ++i) {
    Placement made;
    made.type = manifest.type(i);
    made.spec = *testing::gen::legal_spec(mesh, made.type.shape.size());
    made.rule = *rc::gen::inRange(0, rules + 1);
    if (made.rule > 0) {
      made.requested = *testing::gen::any_spec();
      const auto dims = static_cast<int>(made.requested->dims.size());
      if (dims > 0) {
        const bool beyond =
            made.requested->dims.size() > made.type.shape.size();
        made.corrections.push_back(
            {dims - 1,
             beyond ? Code::SpecLongerThanRank : Code::UnknownAxis,
             {"unknown"},
             "why"});
      }
    }
    measure(made, mesh, plan.on_indivisible);
    plan.placements.push_back(made);
    plan.placement_of.push_back(static_cast<uint32_t>(i));
  }
  return plan;
}

void check_equal(const Placement& a, const Placement& b) {
  RC_ASSERT(a.type == b.type);
  RC_ASSERT(a.rule == b.rule);
  RC_ASSERT(a.requested == b.requested);
  RC_ASSERT(a.spec == b.spec);
  RC_ASSERT(a.corrections == b.corrections);
  RC_ASSERT(a.local_shape == b.local_shape);
  RC_ASSERT(a.bytes_per_device == b.bytes_per_device);
  RC_ASSERT(a.shards == b.shards);
  RC_ASSERT(a.replicas == b.replicas);
}

TEST_CASE("a plan that was written is read back as it was") {
  CHECK(rc::check("read(write(p)) = p", [] {
    Manifest manifest = *testing::gen::manifest();
    manifest.title = "a/b.json";
    manifest.format = "native";
    manifest.facts.from = FactsFrom::Inferred;
    manifest.facts.kv_heads = *rc::gen::arbitrary<uint8_t>();
    manifest.facts.windows = *rc::gen::container<std::vector<int64_t>>(
        rc::gen::inRange<int64_t>(kUnknownWindow, 9));
    const Plan plan = any_plan(manifest);
    Diagnostics diags;
    const auto saved = read_plan(
        std::make_shared<SourceFile>("p", written(manifest, plan)), diags);
    RC_ASSERT(messages(diags) == "");
    RC_ASSERT(saved.has_value());
    RC_ASSERT(saved->manifest.title == manifest.title);
    RC_ASSERT(saved->manifest.format == manifest.format);
    RC_ASSERT(saved->manifest.facts.from == manifest.facts.from);
    RC_ASSERT(saved->manifest.facts.kv_heads == manifest.facts.kv_heads);
    RC_ASSERT(saved->manifest.facts.windows == manifest.facts.windows);
    RC_ASSERT(!saved->manifest.facts.heads);
    RC_ASSERT(saved->plan.mesh == plan.mesh);
    RC_ASSERT(saved->plan.on_indivisible == plan.on_indivisible);
    RC_ASSERT(saved->plan.strict == plan.strict);
    RC_ASSERT(saved->plan.declared_axes == plan.declared_axes);
    RC_ASSERT(saved->plan.rules == plan.rules);
    RC_ASSERT(saved->plan.placement_of == plan.placement_of);
    for (size_t i = 0; i < manifest.size(); ++i) {
      RC_ASSERT(saved->manifest.name(i) == manifest.name(i));
      check_equal(saved->plan.of(i), plan.of(i));
    }
    RC_ASSERT(fingerprint(saved->manifest, saved->plan) ==
              fingerprint(manifest, plan));
    RC_ASSERT(written(saved->manifest, saved->plan) == written(manifest, plan));
  }));
}

TEST_CASE("what is declared is saved, and absent where nothing is") {
  const Manifest model = testing::manifest(
      {{"lm_head.weight", "bf16[10, 4]"}, {"norm.weight", "bf16[4]"}});
  ResolveOptions options;
  REQUIRE(add_declaration("pad-vocab=8", options.declarations));
  Diagnostics diags;
  const auto plan = resolve(model, testing::rules({{"head", "tp"}, {"", ""}}),
                            testing::mesh("tp=4"), options, diags);
  REQUIRE(plan.has_value());
  const std::string text = written(model, *plan);
  CHECK(text.find("\"declare\":[\"pad-vocab=8\"]") != text.npos);
  const auto again =
      read_plan(std::make_shared<SourceFile>("x.plan.json", text), diags);
  REQUIRE(again.has_value());
  CHECK(again->plan.declarations == plan->declarations);
  CHECK(again->plan.of(0).stored == plan->of(0).stored);
  CHECK(again->plan.of(0).stored.at(0).size == 16);
  CHECK(again->plan.of(0).local_shape == Shape{4, 4});
  CHECK(again->plan.of(0).bytes_per_device == 32);
  CHECK(again->plan.of(1).stored.empty());
  CHECK(fingerprint(again->manifest, again->plan) == fingerprint(model, *plan));
  const auto plain = resolve(model, testing::rules({{"", ""}}),
                             testing::mesh("tp=4"), {}, diags);
  REQUIRE(plain.has_value());
  CHECK(written(model, *plain).find("declare\"") == text.npos);
  CHECK(written(model, *plain).find("stored") == text.npos);
}

}  // namespace

}  // namespace shardplan
