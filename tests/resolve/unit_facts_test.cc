// SPDX-License-Identifier: Apache-2.0
#include "resolve/unit_facts.h"

#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "resolve/facts.h"
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

// Names were read once per tensor, which took a third of the time of `resolve`;
// now once per class. Each tensor in a class of its own is as it was.
Folding each_apart(const Manifest& model) {
  std::vector<uint32_t> kinds(model.size());
  std::iota(kinds.begin(), kinds.end(), 0);
  return fold(kinds, [&](size_t i) { return model.name(i); });
}

std::string text_of(const UnitFacts& known) {
  std::string text;
  const auto add = [&](std::optional<int64_t> value) {
    text += value ? std::to_string(*value) + " " : "- ";
  };
  add(known.facts.heads);
  add(known.facts.kv_heads);
  add(known.facts.head_dim);
  add(known.facts.experts);
  for (const std::string& why : known.why) text += why + "; ";
  const LayoutHints& hints = known.hints;
  text += hints.alternating_experts ? "alternating " : "";
  for (const auto& [module, sizes] : hints.down_inputs) {
    text += module + " ";
    for (const int64_t size : sizes) add(size);
  }
  for (const auto& [a, b] : hints.expert_downs) {
    add(a);
    add(b);
  }
  for (const auto& [name, seen] : hints.stacks) {
    text += name + " ";
    add(seen.tensors);
    add(static_cast<int64_t>(seen.least_rank));
    add(static_cast<int64_t>(seen.most_rank));
    add(seen.first);
    add(seen.second);
  }
  return text;
}

// Few kinds of names, so that many are alike but for their numbers (`#`).
std::string random_name() {
  std::string name = *rc::gen::element<std::string>(
      "layers.#.self_attn.q_proj.weight", "layers.#.self_attn.k_norm.weight",
      "#/layers/mlp/down_proj/kernel", "t.#.layers.#.x", "layers.x",
      "layers.#.experts.#.down_proj.weight", "experts.#.w.#.weight",
      "vision/layers/#/attn/query/kernel", "MoeBlock_0/#", "experts/#/",
      "blk.#.attn_q.weight", "blk.#.ffn_down_exps.weight",
      "layers.#.experts.gate_up_proj_bias", "h/experts.#");
  for (size_t at = name.find('#'); at != name.npos; at = name.find('#')) {
    name.replace(at, 1,
                 *rc::gen::element<std::string>("0", "1", "7", "12", "007",
                                                "99999999999999999999", "*"));
  }
  return name;
}

TEST_CASE("reading a name once per class loses nothing") {
  CHECK(rc::check([] {
    std::set<std::string> names;
    const auto count = *rc::gen::inRange(0, 30);
    for (int i = 0; i < count; ++i) names.insert(random_name());
    Manifest model;
    for (const std::string& name : names) {
      RC_ASSERT(model.add(name,
                          testing::type(*rc::gen::element<std::string>(
                              "f32[4]", "f32[64, 64]", "f32[4, 8, 16]")),
                          {}));
    }
    const std::string slow = text_of(unit_facts(model, each_apart(model)));
    RC_ASSERT(text_of(unit_facts(model, fold_by_type(model))) == slow);
    RC_ASSERT(text_of(unit_facts(model)) == slow);
  }));
}

TEST_CASE("what differs within a class is told from every name of it") {
  const Manifest model =
      testing::manifest({{"a.0.layers.w", "f32[4, 8]"},
                         {"a.1.layers.w", "f32[4, 8]"},
                         {"b.experts.2.up.weight", "f32[8, 8]"},
                         {"b.experts.9.up.weight", "f32[8, 8]"},
                         {"c.experts.30.up.1.weight", "f32[8, 8]"},
                         {"c.experts.40.up.12.weight", "f32[8, 8]"}});
  const Folding folding = fold_by_type(model);
  REQUIRE(folding.classes.size() == 3);
  const UnitFacts known = unit_facts(model, folding);
  CHECK(known.hints.stacks.size() == 2);
  CHECK(known.hints.stacks.at("a.1.layers").tensors == 1);
  CHECK(known.facts.experts == 41);
  CHECK(infer_facts(testing::manifest({{"e.experts.3.w.weight", "f32[8]"},
                                       {"e.experts.7.w.weight", "f32[8]"}}))
            .facts.experts == 8);
}

}  // namespace
}  // namespace shardplan
