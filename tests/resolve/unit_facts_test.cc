// SPDX-License-Identifier: Apache-2.0
#include "resolve/unit_facts.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

TEST_CASE("given facts are taken, others inferred, with the reason") {
  Manifest model =
      testing::manifest({{"layers.0.self_attn.q_proj.weight", "bf16[64, 64]"},
                         {"layers.0.self_attn.k_proj.weight", "bf16[16, 64]"},
                         {"layers.0.self_attn.k_norm.weight", "bf16[8]"},
                         {"layers.0.mlp.down_proj.weight", "bf16[64, 32]"}});
  const UnitFacts inferred = unit_facts(model);
  CHECK(!inferred.given());
  CHECK(inferred.facts.heads == 8);
  CHECK(inferred.facts.kv_heads == 2);
  CHECK(!inferred.why.empty());
  CHECK(inferred.hints.down_inputs.at("down_proj").contains(32));

  model.facts.from = FactsFrom::Manifest;
  model.facts.heads = 4;
  const UnitFacts given = unit_facts(model);
  CHECK(given.given());
  CHECK(given.facts.heads == 4);
  CHECK(!given.facts.kv_heads);
  CHECK(given.why.empty());
}

}  // namespace
}  // namespace shardplan
