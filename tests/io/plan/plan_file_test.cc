// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_file.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

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
    CachedTensor state;
    state.name = "ssm";
    state.per = CachedTensor::Per::Sequence;
    state.heads = 4;
    state.width = 2;
    state.dtype = DType::F32;
    state.label = "heads";
    state.module = "l.*.m";
    CachedTensor cache;
    cache.name = "kv";
    cache.width = 3;
    cache.tokens = 16;
    made.facts.state = {{{true, {cache}}, {false, {}}, {true, {state}}},
                        {0, 2, 1}};
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
  rule.matched = 2;
  rule.decided = 2;
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
"facts":{"from":"config","heads":4,"windows":[16,0],"state":{"kinds":[[{"name":"kv","per":"token","heads":0,"width":3,"tokens":16}],null,[{"name":"ssm","per":"sequence","heads":4,"width":2,"dtype":"f32","label":"heads","module":"l.*.m"}]],"layers":[0,2,1]}},
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
  const Mesh mesh = testing::draw_mesh();
  Plan plan{mesh,        draw_of({OnIndivisible::Pad, OnIndivisible::Chunk}),
            draw_bool(), {"ep"},
            {},          {},
            {}};
  plan.run_as = draw_of({RunAs::Compiler, RunAs::Hooks});
  const auto rules = draw_in(0, 3);
  for (int i = 0; i < rules; ++i) {
    PlanRule rule;
    rule.pattern = draw_of<std::string>({"w.*\\.q", "\"\u00e9\n", ""});
    rule.spec = testing::draw_any_spec();
    rule.file = "r.yaml";
    rule.line = i;
    rule.shipped = i == 0;
    rule.shadowed_by = {1};
    plan.rules.push_back(rule);
  }
  for (size_t i = 0; i < manifest.size(); ++i) {
    Placement made;
    made.type = manifest.type(i);
    made.spec = testing::draw_legal_spec(mesh, made.type.shape.size());
    made.rule = draw_in(0, rules + 1);
    if (made.rule > 0) {
      made.requested = testing::draw_any_spec();
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
  ENSURE(a.type == b.type);
  ENSURE(a.rule == b.rule);
  ENSURE(a.requested == b.requested);
  ENSURE(a.spec == b.spec);
  ENSURE(a.corrections == b.corrections);
  ENSURE(a.local_shape == b.local_shape);
  ENSURE(a.bytes_per_device == b.bytes_per_device);
  ENSURE(a.shards == b.shards);
  ENSURE(a.replicas == b.replicas);
}

CachedTensor any_kept() {
  CachedTensor cached;
  cached.name = draw_bool() ? "kv" : "a \"state\"";
  cached.per = static_cast<CachedTensor::Per>(draw_in(0, 3));
  cached.heads = draw_in<int64_t>(0, 9);
  cached.columns = draw_in<int64_t>(1, 4);
  cached.width = cached.columns * draw_in<int64_t>(1, 9);
  cached.every = draw_in<int64_t>(1, 9);
  cached.tokens = draw_in<int64_t>(0, 9);
  if (draw_bool()) cached.dtype = DType::BF16;
  if (draw_bool()) cached.label = "heads";
  if (draw_bool()) cached.module = "l.*";
  return cached;
}

TEST_CASE("a plan that was written is read back as it was") {
  CHECK(holds("read(write(p)) = p", [] {
    Manifest manifest = testing::draw_manifest();
    manifest.title = "a/b.json";
    manifest.format = "native";
    manifest.facts.from = FactsFrom::Inferred;
    manifest.facts.kv_heads = draw_any<uint8_t>();
    manifest.facts.windows =
        draw_list([] { return draw_in<int64_t>(kUnknownWindow, 9); });
    manifest.facts.state.kinds = {
        {true, {}}, {false, {}}, {true, {any_kept(), any_kept()}}};
    manifest.facts.state.layers =
        draw_list([] { return draw_in<uint32_t>(0, 3); });
    if (manifest.facts.state.layers.empty()) manifest.facts.state = {};
    const Plan plan = any_plan(manifest);
    Diagnostics diags;
    const auto saved = read_plan(
        std::make_shared<SourceFile>("p", written(manifest, plan)), diags);
    ENSURE(messages(diags) == "");
    ENSURE(saved.has_value());
    ENSURE(saved->manifest.title == manifest.title);
    ENSURE(saved->manifest.format == manifest.format);
    ENSURE(saved->manifest.facts.from == manifest.facts.from);
    ENSURE(saved->manifest.facts.kv_heads == manifest.facts.kv_heads);
    ENSURE(saved->manifest.facts.windows == manifest.facts.windows);
    ENSURE(saved->manifest.facts.state == manifest.facts.state);
    ENSURE(!saved->manifest.facts.heads);
    ENSURE(saved->plan.mesh == plan.mesh);
    ENSURE(saved->plan.on_indivisible == plan.on_indivisible);
    ENSURE(saved->plan.strict == plan.strict);
    ENSURE(saved->plan.run_as == plan.run_as);
    ENSURE(saved->plan.declared_axes == plan.declared_axes);
    ENSURE(saved->plan.rules == plan.rules);
    ENSURE(saved->plan.placement_of == plan.placement_of);
    for (size_t i = 0; i < manifest.size(); ++i) {
      ENSURE(saved->manifest.name(i) == manifest.name(i));
      check_equal(saved->plan.of(i), plan.of(i));
    }
    ENSURE(fingerprint(saved->manifest, saved->plan) ==
           fingerprint(manifest, plan));
    ENSURE(written(saved->manifest, saved->plan) == written(manifest, plan));
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
  CHECK(again->plan.of(0).stored_dims == plan->of(0).stored_dims);
  CHECK(again->plan.of(0).stored_dims.at(0).size == 16);
  CHECK(again->plan.of(0).local_shape == Shape{4, 4});
  CHECK(again->plan.of(0).bytes_per_device == 32);
  CHECK(again->plan.of(1).stored_dims.empty());
  CHECK(fingerprint(again->manifest, again->plan) == fingerprint(model, *plan));
  const auto plain = resolve(model, testing::rules({{"", ""}}),
                             testing::mesh("tp=4"), {}, diags);
  REQUIRE(plain.has_value());
  CHECK(written(model, *plain).find("declare\"") == text.npos);
  CHECK(written(model, *plain).find("stored") == text.npos);
}

TEST_CASE("what layers keep is refused where it cannot be") {
  Manifest manifest = testing::manifest({{"wq", "bf16[8, 6]"}});
  manifest.facts.from = FactsFrom::Config;
  CachedTensor cached;
  cached.name = "kv";
  cached.width = 3;
  manifest.facts.state = {{{true, {cached}}}, {0}};
  Diagnostics none;
  const auto plan = resolve(manifest, testing::rules({{".", ""}}),
                            testing::mesh("tp=2"), {}, none);
  REQUIRE(plan);
  const std::string good = written(manifest, *plan);
  const auto problem = [&](const std::string& part, const std::string& other) {
    std::string text = good;
    const size_t at = text.find(part);
    REQUIRE(at != text.npos);
    text.replace(at, part.size(), other);
    Diagnostics diags;
    CHECK_FALSE(
        read_plan(std::make_shared<SourceFile>("p", std::move(text)), diags));
    return messages(diags);
  };
  const auto has = [](const std::string& text, std::string_view part) {
    CAPTURE(text);
    CHECK(text.starts_with("SP002"));
    CHECK(text.find(part) != text.npos);
  };
  has(problem("\"layers\":[0]", "\"layers\":[1]"),
      "a layer has an unknown kind");
  has(problem("\"layers\":[0]", "\"layers\":[-1]"), "a layer's kind");
  has(problem("\"width\":3", "\"width\":0"), "has an invalid size");
  has(problem("\"width\":3", "\"width\":1099511627777"), "has an invalid size");
  has(problem("\"width\":3", "\"width\":\"3\""), "`width`");
  has(problem("\"per\":\"token\"", "\"per\":\"day\""), "`per` cannot be `day`");
  has(problem("\"width\":3", "\"width\":3,\"dtype\":\"f31\""),
      "unknown dtype `f31`");
  std::string many;
  for (int i = 0; i < 17; ++i) many += "{\"width\":3},";
  has(problem("{\"name\":\"kv\"", many + "{\"name\":\"kv\""),
      "a layer has too many state tensors");
  std::string layers = "\"layers\":[0";
  for (int i = 0; i < 100'000; ++i) layers += ",0";
  has(problem("\"layers\":[0", layers), "too many layers");
}

}  // namespace

}  // namespace shardplan
