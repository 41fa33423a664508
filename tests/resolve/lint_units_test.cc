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

}  // namespace
}  // namespace shardplan
