// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/advised.h"

namespace shardplan {
namespace {

using testing::Advised;
using testing::advised;

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

}  // namespace
}  // namespace shardplan
