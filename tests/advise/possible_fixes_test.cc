// SPDX-License-Identifier: Apache-2.0
#include "advise/possible_fixes.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"

namespace shardplan {
namespace {

using testing::advised;
using testing::spec;

TEST_CASE("free axes go where they divide, and the least bytes lead") {
  const auto plan =
      advised(testing::manifest({{"w", "u8[6, 8]"}}), "rules:\n  - [w, []]\n",
              testing::mesh("dp=3,tp=4"));
  Diagnostics ignored;
  const auto memory = device_memory(plan.manifest, plan.plan, ignored);
  const Folding folding = fold(plan.plan.placement_of,
                               [&](size_t i) { return plan.manifest.name(i); });
  const Planned planned = {plan.manifest, plan.rules,     plan.plan,   folding,
                           *memory,       plan.resolving, plan.linting};
  const AxisNames free = free_axes(plan.plan, plan.plan.placements[0], {});
  CHECK(free == AxisNames{"dp", "tp"});
  const std::vector<PartitionSpec> ways =
      spread(planned, plan.plan.placements[0], {}, free);
  // 48 / 12 with both; tp alone gives 12, dp alone 16.
  REQUIRE(ways.size() == 3);
  CHECK(ways[0] == spec("dp, tp"));
  CHECK(ways[1] == spec("None, tp"));
  CHECK(ways[2] == spec("dp, None"));
  CHECK(free_axes(plan.plan, plan.plan.placements[0], spec("tp")) ==
        AxisNames{"dp"});
}

TEST_CASE("a rule that is bad for some parameters only is split") {
  Manifest manifest = testing::manifest({{"l/0/q_proj/w", "u8[32, 32]"},
                                         {"l/1/q_proj/w", "u8[32, 32]"},
                                         {"l/0/k_proj/w", "u8[32, 9]"},
                                         {"l/1/k_proj/w", "u8[32, 9]"}});
  const auto plan =
      advised(std::move(manifest), "rules:\n  - [\"_proj\", [null, tp]]\n",
              testing::mesh("tp=4"));
  const auto found = plan.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  REQUIRE_FALSE(found[0].fixes.empty());
  const Fix& fix = found[0].fixes.front();
  CHECK(fix.text ==
        "put `[\"k_proj/w$\", [tp, null]]` before rule 1 (rules.yaml:2)");
  CHECK(edited(plan.text, fix.edits) ==
        "rules:\n  - [\"k_proj/w$\", [tp, null]]\n  - [\"_proj\", [null, "
        "tp]]\n");
  CHECK(testing::broken_promise(plan, found[0], fix) == "");
}

using testing::Advised;

// Every text of the fixes of a finding; all are made and judged.
std::set<std::string> texts(const Advised& plan, const Diagnostic& finding) {
  std::set<std::string> all;
  for (const Fix& fix : finding.fixes) {
    all.insert(fix.text);
    CHECK(testing::broken_promise(plan, finding, fix) == "");
  }
  return all;
}

TEST_CASE("an indivisible dimension: other sizes, padding, other dimensions") {
  const Advised plan =
      advised(testing::manifest({{"w", "u8[9, 8]"}}),
              "rules:\n  - [w, [tp, null]]\n", testing::mesh("tp=4"));
  const auto found = plan.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(texts(plan, found[0]) ==
        std::set<std::string>{
            "pad dimension 0 to 12",
            "pad dimension 0 to 128 (a multiple of 128)", "use `tp=3`",
            "use `tp=9`",
            "write `[null, null]` as the spec of rule 1 "
            "(rules.yaml:2)",
            "write `[null, tp]` as the spec of rule 1 (rules.yaml:2)"});
}

TEST_CASE("padding to 128 suits the shards too") {
  const Advised plan =
      advised(testing::manifest({{"w", "u8[400]"}}), "rules:\n  - [w, [tp]]\n",
              testing::mesh("tp=3"));
  const auto found = plan.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  const auto all = texts(plan, found[0]);
  CHECK(all.count("pad dimension 0 to 402") == 1);
  // 512 is a multiple of 128, but 3 does not divide it; 768 = 6 x 128.
  CHECK(all.count("pad dimension 0 to 768 (a multiple of 128)") == 1);
}

TEST_CASE("a cut unit: a size that cuts none, or another dimension") {
  Manifest manifest =
      testing::manifest({{"l/0/self_attn/k_proj/kernel", "u8[10, 32]"}});
  manifest.facts.from = FactsFrom::Config;
  manifest.facts.heads = 4;
  manifest.facts.kv_heads = 2;
  manifest.facts.head_dim = 16;
  const Advised plan =
      advised(std::move(manifest), "rules:\n  - [k_proj, [null, tp]]\n",
              testing::mesh("tp=4"));
  const auto found = plan.find(Code::SplitUnit);
  REQUIRE(found.size() == 1);
  // 4 does not divide 10, so only replication is left among the specs.
  const auto all = texts(plan, found[0]);
  CHECK(all.count("use `tp=2`") == 1);
  CHECK(all.count("write `[null, null]` as the spec of rule 1 "
                  "(rules.yaml:2)") == 1);
  CHECK(all.count("use `tp=8`") == 0);
  // Two devices share a head, or each holds a copy of it.
  CHECK(all.count("`--declare replicate-kv-heads`") == 1);
}

TEST_CASE("a vocabulary may be padded by declaration") {
  Manifest manifest =
      testing::manifest({{"embed_tokens/embedding", "u8[300, 8]"}});
  manifest.facts.from = FactsFrom::Config;
  manifest.facts.vocab = 300;
  const Advised plan =
      advised(std::move(manifest), "rules:\n  - [embed, [tp]]\n",
              testing::mesh("tp=8"));
  const auto found = plan.find(Code::IndivisibleDimension);
  REQUIRE(found.size() == 1);
  CHECK(texts(plan, found[0]).count("`--declare pad-vocab=128`") == 1);
  for (const Fix& fix : found[0].fixes) {
    if (fix.kind != FixKind::Declare) continue;
    // 384 rows over 8 shards are 48 of 8 bytes; now all 2,400 are held.
    CHECK(fix.bytes_per_device == 384 - 2400);
  }
}

TEST_CASE("uneven shards are evened by the same means") {
  ResolveOptions options;
  options.on_indivisible = OnIndivisible::Chunk;
  const Advised plan =
      advised(testing::manifest({{"w", "u8[9, 8]"}}), "rules:\n  - [w, [tp]]\n",
              testing::mesh("tp=4"), options);
  const auto found = plan.find(Code::UnevenShards);
  REQUIRE(found.size() == 1);
  CHECK(texts(plan, found[0]).size() >= 4);
}

TEST_CASE("lost sharding is won back where most is lost") {
  const Advised plan =
      advised(testing::manifest({{"w", "u8[9, 7]"}, {"v", "u8[8, 8]"}}),
              "rules:\n  - [\".\", [tp, null]]\n", testing::mesh("tp=4"));
  const auto found = plan.find(Code::ShardingLost);
  REQUIRE(found.size() == 1);
  const auto all = texts(plan, found[0]);
  CHECK(all.count("pad dimension 0 of `w` to 12") == 1);
  // Its general help holds all the same.
  CHECK(found[0].help.back().find("--tolerance") != std::string::npos);
}

TEST_CASE("under prefix another order of axes may keep more") {
  ResolveOptions options;
  options.on_indivisible = OnIndivisible::Prefix;
  // 15 rows: of (dp=2, tp=3) nothing is kept, of (tp, dp) a third.
  Diagnostics severities;
  const Advised plan = advised(testing::manifest({{"w", "u8[15]"}}),
                               "rules:\n  - [w, [[dp, tp]]]\n",
                               testing::mesh("dp=2,tp=3"), options, severities);
  const auto found = plan.find(Code::ShardingLost);
  REQUIRE(found.size() == 1);
  for (const Fix& fix : found[0].fixes) {
    CHECK(testing::broken_promise(plan, found[0], fix) == "");
  }
}

std::string fixed(const Advised& plan, Code code, size_t which = 0) {
  const auto found = plan.find(code);
  REQUIRE_FALSE(found.empty());
  REQUIRE(found[0].fixes.size() > which);
  const Fix& fix = found[0].fixes[which];
  CHECK(testing::broken_promise(plan, found[0], fix) == "");
  return edited(plan.text, fix.edits);
}

TEST_CASE("an unmatched parameter is placed as its like are") {
  const Advised plan = advised(testing::manifest({{"l/0/up/w", "u8[8, 4]"},
                                                  {"l/0/gate/w", "u8[8, 4]"},
                                                  {"l/1/gate/w", "u8[8, 4]"}}),
                               "rules:\n  - [\"up/w\", [null, tp]]\n  # end\n",
                               testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::UnmatchedParameter) ==
        "rules:\n  - [\"up/w\", [null, tp]]\n  - [\"gate/w$\", [null, tp]]\n  "
        "# end\n");
  // At last, as it is now: replicated.
  const auto found = plan.find(Code::UnmatchedParameter);
  CHECK(found[0].fixes.back().text ==
        "put `[\"gate/w$\", []]` after the last rule");
}

TEST_CASE("one of a kind gets all axes where they divide") {
  const Advised plan = advised(
      testing::manifest({{"a/w", "u8[8]"}, {"b/v", "u8[7, 16]"}}),
      "rules:\n  - [\"a/w\", [[dp, tp]]]\n", testing::mesh("dp=2,tp=4"));
  CHECK(fixed(plan, Code::UnmatchedParameter) ==
        "rules:\n  - [\"a/w\", [[dp, tp]]]\n  - [\"b/v$\", [null, [dp, "
        "tp]]]\n");
}

TEST_CASE("a rule that is found nowhere goes") {
  const Advised plan =
      advised(testing::manifest({{"w", "u8[8]"}}),
              "rules:\n  - [w, [tp]]\n  # old\n  - [v, [tp]]  # too\n",
              testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::UnusedRule) == "rules:\n  - [w, [tp]]\n  # old\n");
}

TEST_CASE("a rule that is misspelt gets the word that was meant, or goes") {
  const auto plan =
      advised(testing::manifest({{"model.embed_tokens.weight", "u8[8, 8]"},
                                 {"layers.0.q_proj.weight", "u8[8, 8]"},
                                 {"layers.1.q_proj.weight", "u8[8, 8]"},
                                 {"head.weight", "u8[8, 8]"}}),
              "rules:\n  - ['head\\.', [tp]]\n  - ['embed_token\\.', [tp]]\n  "
              "- ['q_porj\\.', [tp]]\n"
              "  - ['.*', []]\n",
              testing::mesh("tp=4"));
  const auto found = plan.find(Code::UnusedRule);
  REQUIRE(found.size() == 2);
  CHECK(texts(plan, found[0]) ==
        std::set<std::string>{
            "write `embed_tokens\\.` as the pattern of rule 2 (rules.yaml:3)",
            "remove rule 2 (rules.yaml:3)"});
  CHECK(found[0].fixes[0].bytes_per_device == -48);
  CHECK(
      texts(plan, found[1])
          .count("write `q_proj\\.` as the pattern of rule 3 (rules.yaml:4)") ==
      1);
  CHECK(found[1].fixes[0].bytes_per_device == -96);
}

TEST_CASE("a shadowed rule moves above the one that takes its names") {
  const Advised plan = advised(
      testing::manifest({{"mlp/up", "u8[8, 6]"}, {"mlp/down", "u8[6, 8]"}}),
      "rules:\n  - [\"mlp\", [null, tp]]\n  - [\"mlp/down\", [tp, "
      "null]]  # rows\n",
      testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::ShadowedRule) ==
        "rules:\n  - [\"mlp/down\", [tp, null]]  # rows\n  - [\"mlp\", [null, "
        "tp]]\n");
}

TEST_CASE("a pattern found in the middle of words is anchored") {
  const Advised plan = advised(
      testing::manifest({{"up/w", "u8[8, 6]"}, {"upper/w", "u8[8, 6]"}}),
      "rules:\n  - [up, [null, tp]]\n  - [upper, [tp, null]]\n",
      testing::mesh("tp=2"));
  bool anchored = false;
  const auto found = plan.find(Code::ShadowedRule);
  REQUIRE(found.size() == 1);
  for (const Fix& fix : found[0].fixes) {
    CHECK(testing::broken_promise(plan, found[0], fix) == "");
    anchored =
        anchored || fix.text ==
                        "write `(^|[./])up([./]|$)` as the pattern of rule "
                        "1 (rules.yaml:2)";
  }
  CHECK(anchored);
}

TEST_CASE("a rule for several ranks is split by rank") {
  Diagnostics severities;
  severities.set_severity(Code::OverlyBroadPattern, Severity::Warning);
  const Advised plan = advised(
      testing::manifest({{"mlp/kernel", "u8[8, 8]"}, {"mlp/bias", "u8[8]"}}),
      "rules:\n  - [mlp, [tp]]\n", testing::mesh("tp=2"), {}, severities);
  CHECK(fixed(plan, Code::OverlyBroadPattern) ==
        "rules:\n  - [\"mlp/bias$\", [tp]]\n  - [mlp, [tp]]\n");
}

TEST_CASE("a catch-all becomes explicit") {
  const Advised plan =
      advised(testing::manifest({{"a/w", "u8[8]"}, {"b/v", "u8[8]"}}),
              "rules:\n  - [\"a/w\", [tp]]\n  - [\".*\", [tp]]\n",
              testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::CatchAllOnly) ==
        "rules:\n  - [\"a/w\", [tp]]\n  - [\"b/v$\", [tp]]\n");
}

Manifest two() {
  return testing::manifest({{"a/w", "f32[512, 1024]"}, {"b/w", "f32[8, 8]"}});
}

TEST_CASE("an unknown axis: the one that was meant, or none") {
  const Advised plan = advised(two(), "rules:\n  - [w, [fsdb, tp]]\n",
                               testing::mesh("fsdp=2,tp=2"));
  CHECK(fixed(plan, Code::UnknownAxis) == "rules:\n  - [w, [fsdp, tp]]\n");
  // Without it the mesh would have an axis that no rule names (SP208).
  CHECK(plan.find(Code::UnknownAxis)[0].fixes.size() == 1);
  const Advised fewer =
      advised(two(), "rules:\n  - [w, [zzzz, tp]]\n", testing::mesh("tp=2"));
  CHECK(fixed(fewer, Code::UnknownAxis) == "rules:\n  - [w, [null, tp]]\n");
}

TEST_CASE("None becomes null, and a rule that decides nothing is mended too") {
  const Advised plan =
      advised(two(), "rules:\n  - [w, [None, tp]]\n  - [zz, [tq]]\n",
              testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::UnknownAxis) ==
        "rules:\n  - [w, [null, tp]]\n  - [zz, [tq]]\n");
  const auto found = plan.find(Code::UnknownAxis);
  REQUIRE(found.size() == 2);
  REQUIRE_FALSE(found[1].fixes.empty());
  CHECK(edited(plan.text, found[1].fixes[0].edits) ==
        "rules:\n  - [w, [None, tp]]\n  - [zz, [tp]]\n");
}

TEST_CASE("a repeated axis: the later use goes") {
  const Advised plan =
      advised(two(), "rules:\n  - [w, [tp, tp]]\n", testing::mesh("tp=2"));
  CHECK(fixed(plan, Code::RepeatedAxis) == "rules:\n  - [w, [tp, null]]\n");
  CHECK(fixed(plan, Code::RepeatedAxis, 1) == "rules:\n  - [w, [null, tp]]\n");
}

TEST_CASE("a spec beyond the rank is cut, or split off") {
  const Advised whole = advised(two(), "rules:\n  - [w, [tp, null, null]]\n",
                                testing::mesh("tp=2"));
  CHECK(fixed(whole, Code::SpecLongerThanRank) ==
        "rules:\n  - [w, [tp, null]]\n");
  Manifest mixed = testing::manifest({{"a/w", "u8[4, 4]"}, {"a/b", "u8[4]"}});
  const Advised some = advised(
      std::move(mixed), "rules:\n  - [a, [tp, null]]\n", testing::mesh("tp=2"));
  CHECK(fixed(some, Code::SpecLongerThanRank) ==
        "rules:\n  - [\"a/b$\", [tp]]\n  - [a, [tp, null]]\n");
}

TEST_CASE("a large replicated parameter gets the free axes") {
  const Advised plan =
      advised(two(), "rules:\n  - [\"a/w\", []]\n  - [w, [[fsdp, tp]]]\n",
              testing::mesh("fsdp=2,tp=2"));
  const std::string after = fixed(plan, Code::LargeReplicatedParameter);
  CHECK(after.find("[\"a/w\", []]") == std::string::npos);
  CHECK(
      plan.find(Code::LargeReplicatedParameter)[0].fixes[0].bytes_per_device ==
      -(512 * 1024 * 4 / 4 * 3));
}

TEST_CASE("an unused axis is named where most bytes are") {
  const Advised plan =
      advised(two(), "rules:\n  - [\"a/w\", [tp]]\n  - [w, [tp]]\n",
              testing::mesh("fsdp=2,tp=2"));
  CHECK(fixed(plan, Code::UnmentionedAxis) ==
        "rules:\n  - [\"a/w\", [[tp, fsdp], null]]\n  - [w, [tp]]\n");
  const Advised declared = advised(
      two(), "axes: [fsdp]\nrules:\n  - [\"a/w\", [tp]]\n  - [w, [tp]]\n",
      testing::mesh("fsdp=2,tp=2"));
  CHECK(fixed(declared, Code::UnusedAxis) ==
        "axes: [fsdp]\nrules:\n  - [\"a/w\", [[tp, fsdp], null]]\n"
        "  - [w, [tp]]\n");
  // One for copies, or called otherwise, is not put into rules.
  const Advised copies =
      advised(two(), "rules:\n  - [w, [tp]]\n", testing::mesh("dp=2,tp=2"));
  CHECK(copies.find(Code::UnmentionedAxis).at(0).fixes.empty());
  const Advised other =
      advised(two(), "axes: [tp, fsdp]\nrules:\n  - [w, [tp, fsdp]]\n",
              testing::mesh("fsdp=2,tensor=2"));
  CHECK(other.find(Code::UnmentionedAxis).at(0).fixes.empty());
}

}  // namespace

}  // namespace shardplan
