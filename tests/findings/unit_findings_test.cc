// SPDX-License-Identifier: Apache-2.0
// SP206.
#include "findings/unit_findings.h"

#include <doctest/doctest.h>

#include "findings/checks.h"
#include "tests/support/linted.h"
#include "tests/support/messages.h"
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::lint_of;

// Eight KV heads of 128: 1,024 rows, which 16 divides.
Manifest model(FactsFrom from) {
  Manifest manifest = testing::manifest(
      {{"model.layers.0.self_attn.k_proj.weight", "bf16[1024, 8192]"}});
  manifest.facts.from = from;
  manifest.facts.heads = 64;
  manifest.facts.kv_heads = 8;
  manifest.facts.head_dim = 128;
  return manifest;
}

TEST_CASE("half a KV head per device is an error when facts are given") {
  const auto found = lint_of(model(FactsFrom::Config),
                             testing::rules({{"k_proj", "tp"}}), "tp=16")
                         .find(Code::SplitUnit);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::Error);
  CHECK(
      found[0].message ==
      "tp=16 splits the KV heads of `model.layers.0.self_attn.k_proj.weight`");
  CHECK(found[0].facts.at(0) ==
        "8 KV heads over 16 shards: half a KV head on each, though 1024 mod 16 "
        "= 0");
  CHECK(found[0].facts.at(1) == "`tp` may be 1, 2, 4 or 8");
}

TEST_CASE("sizes that would divide are told only where heads stay whole") {
  const auto found = lint_of(model(FactsFrom::Config),
                             testing::rules({{"k_proj", "tp"}}), "tp=3")
                         .find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(found[0].facts.at(2) ==
        "`tp` may be 1, 2, 4 or 8, with whole KV heads");
  // Weights are gathered over fsdp before heads are.
  CHECK(lint_of(model(FactsFrom::Config), testing::rules({{"k_proj", "fsdp"}}),
                "fsdp=3")
            .find(Code::IndivisibleDimension)
            .at(0)
            .facts.at(2) == "`fsdp` may be 1, 2, 4, 8, 16, 32 or 64");
}

TEST_CASE("a data axis that shards nothing is a note beside one that shards") {
  const auto severity = [](const char* rule, const char* mesh) {
    return lint_of(testing::manifest({{"w", "u8[8, 8]"}}),
                   testing::rules({{"w", rule}, {"none", "dp, ep"}}), mesh)
        .find(Code::UnusedAxis)
        .at(0)
        .severity;
  };
  CHECK(severity("tp", "dp=2,tp=2") == Severity::Note);
  CHECK(severity("tp", "ep=2,tp=2") == Severity::Warning);
  CHECK(severity("None, None", "dp=2,tp=1") == Severity::Warning);
}

TEST_CASE("whole heads are fine, and axes that are gathered do not count") {
  CHECK(lint_of(model(FactsFrom::Config), testing::rules({{"k_proj", "tp"}}),
                "tp=8")
            .find(Code::SplitUnit)
            .empty());
  CHECK(lint_of(model(FactsFrom::Config),
                testing::rules({{"k_proj", "(fsdp, tp)"}}), "fsdp=16,tp=8")
            .find(Code::SplitUnit)
            .empty());
}

Manifest model_of(const std::vector<testing::NamedType>& tensors,
                  FactsFrom from, int64_t layers = 0) {
  Manifest manifest = testing::manifest(tensors);
  manifest.facts.from = from;
  if (layers > 0) manifest.facts.layers = layers;
  return manifest;
}

TEST_CASE("a rule that shards each packed part cuts none that divides") {
  auto rules = testing::rules({{"gate_up", "tp"}});
  rules.rules[0].shards_parts = true;
  const auto found = [&](const char* type, const char* mesh) {
    return lint_of(model_of({{"layers.0.mlp.gate_up_proj.weight", type}},
                            FactsFrom::None),
                   rules, mesh)
        .find(Code::SplitUnit)
        .size();
  };
  CHECK(found("bf16[64, 16]", "tp=4") == 0);
  // 4 shards divide the 36 rows, but not the 18 of gate.
  CHECK(found("bf16[36, 16]", "tp=4") == 1);
}

TEST_CASE("a packed tensor is found without facts, as a warning") {
  const std::vector<testing::NamedType> tensors = {
      {"layers.0.mlp.gate_up_proj.weight", "bf16[64, 16]"}};
  const auto rules = testing::rules({{"gate_up", "tp"}});
  const auto found = lint_of(model_of(tensors, FactsFrom::None), rules, "tp=4")
                         .find(Code::SplitUnit);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::Warning);
  CHECK(found[0].message ==
        "tp=4 splits the packed gate and up of "
        "`layers.0.mlp.gate_up_proj.weight`");
  CHECK(found[0].facts.at(0).find("device 0 would hold gate rows 0-15 of 32 "
                                  "and no up rows") != std::string::npos);
  CHECK(lint_of(model_of(tensors, FactsFrom::Config), rules, "tp=4")
            .find(Code::SplitUnit)
            .at(0)
            .severity == Severity::Error);
  CHECK(lint_of(model_of(tensors, FactsFrom::Config), rules, "tp=1")
            .find(Code::SplitUnit)
            .empty());
  ResolveOptions declared;
  declared.declarations.interleave_gate_up = true;
  CHECK(lint_of(model_of(tensors, FactsFrom::Config), rules, "tp=4", declared)
            .find(Code::SplitUnit)
            .empty());
  // 64 shards of half a gate row: no order of rows helps.
  CHECK(lint_of(model_of(tensors, FactsFrom::Config), rules, "tp=64", declared)
            .find(Code::SplitUnit)
            .size() == 1);
}

TEST_CASE("the stack of layers counts every axis but those of a pipeline") {
  const Manifest scanned = model_of(
      {{"layers/mlp/up_proj/kernel", "bf16[8, 16, 16]"}}, FactsFrom::Config, 8);
  const auto severity = [&](const char* axis, const char* mesh) {
    const auto found =
        lint_of(scanned, testing::rules({{"kernel", axis}}), mesh)
            .find(Code::SplitUnit);
    return found.empty() ? Severity::Off : found[0].severity;
  };
  CHECK(severity("tp", "tp=4") == Severity::Error);
  CHECK(severity("fsdp", "fsdp=4") == Severity::Warning);
  CHECK(severity("(fsdp, tp)", "fsdp=2,tp=2") == Severity::Error);
  CHECK(severity("pp", "pp=4") == Severity::Off);
  CHECK(severity("None, tp", "tp=4") == Severity::Off);
}

TEST_CASE("half of a stored block is an error, whatever axis cuts it") {
  const auto severity = [](const std::string& mesh) {
    const auto found =
        lint_of(testing::manifest({{"blk.0.ffn_up.weight", "q4_k[64, 4096]"}}),
                testing::rules({{"ffn_up", "None, fsdp"}}), mesh)
            .find(Code::SplitUnit);
    return found.empty() ? Severity::Off : found[0].severity;
  };
  CHECK(severity("fsdp=16") == Severity::Off);
  CHECK(severity("fsdp=32") == Severity::Error);
}

TEST_CASE("a cut group of experts is a note") {
  Manifest moe = model_of({{"mlp/experts/up/kernel", "bf16[16, 8, 8]"}},
                          FactsFrom::Config);
  moe.facts.experts = 16;
  moe.facts.expert_groups = 2;
  const auto found = lint_of(moe, testing::rules({{"experts", "ep"}}), "ep=4")
                         .find(Code::SplitUnit);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::Note);
}

TEST_CASE("replicated KV heads are no finding, where they are stored so") {
  ResolveOptions declared;
  declared.declarations.replicate_kv_heads = true;
  const auto rules = testing::rules({{"k_proj", "tp"}});
  const Manifest manifest = model(FactsFrom::Config);
  CHECK(lint_of(manifest, rules, "tp=16", declared)
            .find(Code::SplitUnit)
            .empty());
  CHECK(lint_of(manifest, rules, "tp=128", declared)
            .find(Code::SplitUnit)
            .size() == 1);
  // A plan that declares it without storing it was not made by us.
  Diagnostics diags;
  auto plan = resolve(manifest, rules, testing::mesh("tp=16"), {}, diags);
  REQUIRE(plan.has_value());
  plan->declarations.replicate_kv_heads = true;
  const auto memory = device_memory(manifest, *plan, diags);
  REQUIRE(memory.has_value());
  const Folding folding =
      fold(plan->placement_of, [&](size_t i) { return manifest.name(i); });
  const LintOptions options;
  check_split_units(
      make_lint_input(manifest, *plan, folding, nullptr, *memory, options),
      diags);
  CHECK(diags.count(Severity::Error) == 1);
}

// SP204, SP302, SP304: src/findings/unit_findings.cc.

using testing::message;

TEST_CASE("an axis that shards nothing is a warning") {
  const auto found =
      lint_of(testing::manifest({{"w", "u8[8]"}}),
              testing::rules({{"w", "tp"}}, {"dp"}), "dp=2,tp=2,one=1")
          .find(Code::UnusedAxis);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) == "SP204 note axis `dp` shards no parameter");
}

TEST_CASE("a large parameter that is replicated is a warning") {
  const auto found =
      lint_of(testing::manifest({{"w", "u8[1048576]"}, {"b", "u8[1048575]"}}),
              testing::rules({{"w|b", ""}}), "tp=2")
          .find(Code::LargeReplicatedParameter);
  REQUIRE(found.size() == 1);
  CHECK(found[0].parameters == std::vector<std::string>{"w"});
}

TEST_CASE("sharding lost beyond the tolerance is an error") {
  // As asked for, padded: 25 + 2500 bytes; as resolved: 97 + 2500.
  const Manifest manifest =
      testing::manifest({{"a", "u8[97]"}, {"b", "u8[10000]"}});
  const auto lost = [&](double tolerance) {
    LintOptions options;
    options.tolerance = tolerance;
    return lint_of(manifest, testing::rules({{"a|b", "tp"}}), "tp=4", {},
                   options)
        .find(Code::ShardingLost);
  };
  REQUIRE(lost(0.02).size() == 1);
  CHECK(lost(0.02)[0].severity == Severity::Error);
  CHECK(lost(0.0286).empty());
  CHECK(lost(0.0285).size() == 1);
}

TEST_CASE("too large a replicated fraction is an error when it is gated") {
  const Manifest manifest =
      testing::manifest({{"a", "u8[25]"}, {"b", "u8[75, 4]"}});
  const auto gated = [&](double most) {
    LintOptions options;
    options.max_replicated = most;
    return lint_of(manifest, testing::rules({{"a", ""}, {"b", "None, tp"}}),
                   "tp=4", {}, options)
        .find(Code::ShardingLost);
  };
  CHECK(gated(0.07).size() == 1);
  CHECK(gated(0.08).empty());
}

using testing::type;

SplitUnit split(Unit unit, const std::string& of, AxisNames axes,
                int64_t shards) {
  const TensorType tensor = type(of);
  const int64_t size = tensor.shape[static_cast<size_t>(unit.dim)];
  return {std::move(unit), std::move(axes), shards, tensor, size};
}

TEST_CASE("a finding says what a device would have") {
  const Mesh mesh = testing::mesh("tp=16,ep=2");
  const SplitUnit kv =
      split({0, UnitKind::KvHead, 8}, "f32[1024, 64]", {"tp"}, 16);
  CHECK(split_message(kv, mesh) == "tp=16 splits the KV heads of");
  CHECK(split_fact(kv) ==
        "8 KV heads over 16 shards: half a KV head on each, though 1024 mod 16 "
        "= 0");
  const SplitUnit expert =
      split({0, UnitKind::Expert, 3}, "f32[6, 2, 2]", {"ep"}, 2);
  CHECK(split_fact(expert) ==
        "3 experts over 2 shards: 3/2 of an expert on each, though 6 mod 2 = "
        "0");
  CHECK(split_fact(
            split({2, UnitKind::Head, 1, true}, "f32[4, 2, 8]", {"tp"}, 2)) ==
        "dimension 2, of size 8, is within one head: any sharding splits it");
  CHECK(split_fact(split({0, UnitKind::QuantBlock, 4}, "f8_e4m3fn[512, 128]",
                         {"tp"}, 8)) ==
        "dimension 0 is 512, in 4 quantisation blocks; 8 shards of 64 begin or "
        "end within a block");
  const SplitUnit layers =
      split({0, UnitKind::Layer, 24}, "f32[24, 64]", {"tp"}, 16);
  CHECK(split_message(layers, mesh) == "tp=16 splits the stacked layers of");
}

TEST_CASE("of a packed tensor it says which rows the first device would have") {
  Unit unit;
  unit.kind = UnitKind::PackedGateUp;
  unit.parts = {{"gate", 8, 8, false}, {"up", 8, 8, false}};
  CHECK(split_fact(split(unit, "f32[16, 4]", {"tp"}, 4)) ==
        "gate and up are side by side in the 16 rows: device 0 would hold gate "
        "rows 0-3 of 8 and no up rows");
  unit.dim = 1;
  unit.kind = UnitKind::FusedQkv;
  unit.parts = {{"q", 8, 4, false}, {"k", 4, 2, true}, {"v", 4, 2, true}};
  CHECK(split_fact(split(unit, "f32[4, 16]", {"tp"}, 2)) ==
        "q, k and v are side by side in the 16 columns: device 0 would hold q "
        "columns 0-7 of 8 and no k columns, no v columns");
  unit.parts = {{"q", 4, 4, false}, {"k", 6, 2, true}, {"v", 6, 2, true}};
  CHECK(split_fact(split(unit, "f32[4, 16]", {"tp"}, 2)) ==
        "q, k and v are side by side in the 16 columns: device 0 would hold q "
        "columns 0-3 of 4, k columns 0-3 of 6 and no v columns");
}

TEST_CASE("every legal size of every axis is listed") {
  const Mesh mesh = testing::mesh("a=2,tp=32");
  const SplitUnit pairs =
      split({0, UnitKind::GateUpPair, 2880}, "f32[5760]", {"tp"}, 32);
  CHECK(legal_sizes(pairs, mesh, {}) ==
        "`tp` may be 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 18, 20, 24, 30, "
        "32, 36, 40, 45, 48, 60, 64, 72, 80, 90, 96, 120, 144, 160, 180, 192, "
        "240, 288, 320, 360, 480, 576, 720, 960, 1440 or 2880");
  const SplitUnit two =
      split({0, UnitKind::Head, 12}, "f32[768]", {"a", "tp"}, 64);
  CHECK(legal_sizes(two, mesh, {}) == "`tp` may be 1, 2, 3 or 6");
  const SplitUnit none =
      split({0, UnitKind::Head, 3}, "f32[768]", {"a", "tp"}, 64);
  CHECK(legal_sizes(none, mesh, {}) ==
        "no size of one axis alone keeps them whole");
  SplitUnit kv = split({0, UnitKind::KvHead, 8}, "f32[1024]", {"tp"}, 32);
  kv.unit.queries = 32;
  CHECK(legal_sizes(kv, mesh, {}) == "`tp` may be 1, 2, 4 or 8");
  Declarations copies;
  copies.replicate_kv_heads = true;
  CHECK(legal_sizes(kv, mesh, copies) == "`tp` may be 1, 2, 4, 8, 16 or 32");
}

TEST_CASE("help names the declaration that would do, where one would") {
  const SplitUnit kv = split({0, UnitKind::KvHead, 8}, "f32[1024]", {"tp"}, 16);
  CHECK(split_help(kv, {}).size() == 2);
  CHECK(split_help(kv, {})[0] ==
        "use an axis size that divides 8, or leave the dimension "
        "unsharded to replicate the KV heads");
  CHECK(split_help(kv, {})[1].starts_with("`--declare replicate-kv-heads`"));
  const SplitUnit odd =
      split({0, UnitKind::KvHead, 8}, "f32[1024]", {"tp"}, 12);
  CHECK(split_help(odd, {}).size() == 1);
  Unit unit;
  unit.kind = UnitKind::PackedGateUp;
  unit.parts = {{"gate", 8, 8, false}, {"up", 8, 8, false}};
  const SplitUnit packed = split(unit, "f32[16]", {"tp"}, 2);
  CHECK(split_help(packed, {})
            .back()
            .starts_with("`--declare interleave-gate-up`"));
  CHECK(split_help(split({1, UnitKind::Layer, 4}, "f32[2, 4]", {"tp"}, 2), {})
            .front()
            .starts_with("write `null` for dimension 1"));
}

}  // namespace

}  // namespace shardplan
