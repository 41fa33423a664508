// SPDX-License-Identifier: Apache-2.0
// SP206: src/resolve/lint_units.cc.
#include <doctest/doctest.h>

#include "tests/support/linted.h"

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
  CHECK(found[0].message ==
        "tp=16 cuts the KV heads of `model.layers.0.self_attn.k_proj.weight`");
  CHECK(found[0].facts.at(0) ==
        "8 KV heads over 16 shards: half a KV head on each, though 1024 mod 16 "
        "= 0");
  CHECK(found[0].facts.at(1) == "`tp` may be 1, 2, 4 or 8");
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

TEST_CASE("a packed tensor is found without facts, as a warning") {
  const std::vector<testing::NamedType> tensors = {
      {"layers.0.mlp.gate_up_proj.weight", "bf16[64, 16]"}};
  const auto rules = testing::rules({{"gate_up", "tp"}});
  const auto found = lint_of(model_of(tensors, FactsFrom::None), rules, "tp=4")
                         .find(Code::SplitUnit);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::Warning);
  CHECK(found[0].message ==
        "tp=4 cuts the packed gate and up of "
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
  lint_units(
      make_lint_input(manifest, *plan, folding, nullptr, *memory, options),
      diags);
  CHECK(diags.count(Severity::Error) == 1);
}

}  // namespace
}  // namespace shardplan
