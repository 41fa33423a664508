// SPDX-License-Identifier: Apache-2.0
// SP101, SP102, SP103, SP107: src/findings/rule_findings.cc.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/linted.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::lint_of;
using testing::message;

TEST_CASE("an unmatched parameter is an error, or a note when asked for") {
  const Manifest manifest =
      testing::manifest({{"l/0/w", "u8[8]"}, {"l/1/w", "u8[8]"}});
  const auto found = lint_of(manifest, testing::rules({{"x", ""}}), "tp=2")
                         .find(Code::UnmatchedParameter);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) ==
        "SP101 parameters `l/0/w` and 1 more match no rule");
  CHECK(found[0].findings == 2);
  LintOptions options;
  options.accept_unmatched = true;
  CHECK(lint_of(manifest, testing::rules({{"x", ""}}), "tp=2", {}, options)
            .find(Code::UnmatchedParameter)
            .at(0)
            .severity == Severity::Note);
}

TEST_CASE("rules that are not found, or come too late, are warnings") {
  const auto result =
      lint_of(testing::manifest({{"w", "u8[8]"}, {"s", "u8[]"}}),
              testing::rules({{"w", "tp"}, {"^w$", ""}, {"zz", ""}, {"s", ""}}),
              "tp=2");
  const auto shadowed = result.find(Code::ShadowedRule);
  REQUIRE(shadowed.size() == 1);
  CHECK(message(shadowed[0]) ==
        "SP103 warning rules:2:1 rule 2 (rules:2) never applies");
  CHECK(shadowed[0].labels.at(1).where.text() == "w");
  const auto unused = result.find(Code::UnusedRule);
  REQUIRE(unused.size() == 2);
  CHECK(message(unused[0]) ==
        "SP102 warning rules:3:1 rule 3 (rules:3) matches no parameter");
  CHECK(unused[1].message ==
        "rule 4 (rules:4) matches scalars only, which are never sharded");
}

TEST_CASE("what only a catch-all decides is a warning") {
  const auto found =
      lint_of(testing::manifest({{"w", "u8[8]"}, {"x", "u8[8]"}}),
              testing::rules({{"w", "tp"}, {".*", ""}}), "tp=2")
          .find(Code::CatchAllOnly);
  REQUIRE(found.size() == 1);
  CHECK(found[0].parameters == std::vector<std::string>{"x"});
}

TEST_CASE("a catch-all that ends complete rules is no mistake") {
  const Manifest manifest = testing::manifest({{"w", "u8[8]"}, {"x", "u8[8]"}});
  const auto spare =
      lint_of(manifest, testing::rules({{"w", "tp"}, {"x", "tp"}, {".*", ""}}),
              "tp=2")
          .find(Code::ShadowedRule);
  REQUIRE(spare.size() == 1);
  CHECK(spare[0].severity == Severity::Note);
  CHECK(spare[0].help.front().starts_with("no change needed"));
  // In the middle it is one.
  const auto shadowed =
      lint_of(manifest, testing::rules({{".*", ""}, {".*", "tp"}, {"x", "tp"}}),
              "tp=2")
          .find(Code::ShadowedRule);
  REQUIRE(shadowed.size() == 2);
  CHECK(shadowed[0].severity == Severity::Warning);
  CHECK(shadowed[1].severity == Severity::Warning);
}

using testing::Linted;

RuleSet with_logical(RuleSet rules,
                     std::vector<std::pair<std::string, AxisNames>> logical) {
  for (auto& [name, axes] : logical) {
    rules.logical_rules.push_back({name, std::move(axes), {}, {}});
  }
  return rules;
}

Manifest labelled(const char* type, AxisLabels labels) {
  Manifest manifest = testing::manifest({{"w", type}, {"v", type}});
  manifest.set_axes(0, labels);
  manifest.set_axes(1, std::move(labels));
  return manifest;
}

TEST_CASE("axes of the manifest place what no rule matches") {
  const Linted result = lint_of(
      labelled("f32[8, 8]", {"embed", "mlp"}),
      with_logical({}, {{"embed", {"fsdp"}}, {"mlp", {"tp"}}}), "fsdp=4,tp=2");
  CHECK(result.diags.all().empty());
}

TEST_CASE("a label that is not placed is one finding for all that lose it") {
  const Manifest manifest = labelled("f32[8, 8]", {"embed", "mlp"});
  const RuleSet rules =
      with_logical({}, {{"embed", {"fsdp"}}, {"mlp", {"fsdp"}}});
  const auto found =
      lint_of(manifest, rules, "fsdp=4").find(Code::UnplacedLogicalAxis);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::Warning);
  CHECK(found[0].message ==
        "logical axis `mlp` of `w` and 1 more is not placed");
  CHECK(found[0].parameters == std::vector<std::string>{"w", "v"});
  LintOptions raise;
  raise.raise_unplaced = true;
  const auto error = lint_of(manifest, rules, "fsdp=4", {}, raise)
                         .find(Code::UnplacedLogicalAxis);
  REQUIRE(error.size() == 1);
  CHECK(error[0].severity == Severity::Error);
}

TEST_CASE("a label given twice is one error for the array") {
  const auto found = lint_of(labelled("f32[8, 8]", {"embed", "embed"}),
                             with_logical({}, {{"embed", {"fsdp"}}}), "fsdp=4")
                         .find(Code::RepeatedLogicalAxis);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::Error);
}

TEST_CASE("a name that is a mesh axis and a logical axis is an error") {
  const Linted result =
      lint_of(testing::manifest({{"w", "f32[8, 8]"}}),
              with_logical(testing::rules({{"w", "tp, mesh:fsdp"}}),
                           {{"tp", {"fsdp"}}, {"fsdp", {"tp"}}}),
              "fsdp=4,tp=2");
  const auto found = result.find(Code::AmbiguousAxis);
  REQUIRE(found.size() == 1);
  CHECK(found[0].message == "`tp` is a mesh axis and a logical axis");
}

TEST_CASE("a catch-all that takes labelled parameters is a warning") {
  const RuleSet rules =
      with_logical(testing::rules({{".*", ""}}), {{"embed", {"fsdp"}}});
  const Manifest manifest = labelled("f32[8, 8]", {"embed", std::nullopt});
  const auto found =
      lint_of(manifest, rules, "fsdp=4").find(Code::OverriddenLogicalAxes);
  REQUIRE(found.size() == 1);
  CHECK(found[0].parameters.size() == 2);
  const RuleSet own =
      with_logical(testing::rules({{"^[vw]$", ""}}), {{"embed", {"fsdp"}}});
  CHECK(lint_of(manifest, own, "fsdp=4")
            .find(Code::OverriddenLogicalAxes)
            .empty());
}

TEST_CASE("semantic and logical names are no unknown axes") {
  const Linted result =
      lint_of(testing::manifest({{"w", "f32[8, 8]"}}),
              with_logical(testing::rules({{"w", "HEAD, embed"},
                                           {"never", "EMBED, logical:mlp"}}),
                           {{"embed", {"fsdp"}}, {"mlp", {"tp"}}}),
              "fsdp=4,tp=2");
  CHECK(result.find(Code::UnknownAxis).empty());
  CHECK(result.find(Code::UnusedRule).size() == 1);
}

TEST_CASE("what a semantic axis means may be an unknown axis") {
  const auto found =
      lint_of(testing::manifest({{"w", "f32[8, 8]"}}),
              testing::rules({{"w", "SEQUENCE_PARALLEL"}}), "fsdp=4")
          .find(Code::UnknownAxis);
  REQUIRE(found.size() == 1);
  CHECK(found[0].message == "unknown axis `sp`");
  CHECK(found[0].facts.front() == "`SEQUENCE_PARALLEL` means `sp`");
}

TEST_CASE("what logical axes ask for is checked like any spec") {
  Manifest manifest =
      testing::manifest({{"layers/0/self_attn/k_proj/kernel", "f32[64, 16]"},
                         {"odd", "f32[63, 8]"},
                         {"unknown", "f32[8, 8]"},
                         {"large", "f32[4096, 65536]"}});
  manifest.facts.heads = 4;
  manifest.facts.kv_heads = 2;
  manifest.facts.head_dim = 8;
  manifest.facts.from = FactsFrom::Manifest;
  manifest.set_axes(0, {"embed", "heads"});
  manifest.set_axes(1, {"embed", std::nullopt});
  manifest.set_axes(2, {"other", std::nullopt});
  manifest.set_axes(3, {"none", std::nullopt});
  const Linted result = lint_of(manifest,
                                with_logical({}, {{"embed", {"fsdp"}},
                                                  {"heads", {"tp"}},
                                                  {"other", {"zz"}},
                                                  {"none", {}}}),
                                "fsdp=2,tp=4");
  CHECK(result.find(Code::SplitUnit).size() == 1);
  CHECK(result.find(Code::IndivisibleDimension).size() == 1);
  CHECK(result.find(Code::UnknownAxis).size() == 1);
  const auto large = result.find(Code::LargeReplicatedParameter);
  REQUIRE(large.size() == 1);
  CHECK(large[0].help.front() == "shard a dimension in the logical axis rules");
}

TEST_CASE("a parameter without labels says that logical rules pass it by") {
  const auto found = lint_of(testing::manifest({{"w", "f32[8, 8]"}}),
                             with_logical({}, {{"embed", {"fsdp"}}}), "fsdp=2")
                         .find(Code::UnmatchedParameter);
  REQUIRE(found.size() == 1);
  CHECK(found[0].facts.back() ==
        "the manifest gives no logical axes for it, so the logical axis rules "
        "do not apply");
}

}  // namespace

}  // namespace shardplan
