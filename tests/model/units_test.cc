// SPDX-License-Identifier: Apache-2.0

#include "model/units.h"

#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/facts.h"
#include "tests/support/builders.h"
#include "tests/support/property.h"
#include "tests/support/units.h"

namespace shardplan {
namespace {

using testing::attention_facts;
using testing::check_units;
using testing::UnitRow;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST_CASE("absurd facts claim nothing") {
  const std::vector<UnitRow> rows = {
      {"self_attn.q_proj.weight", "bf16[4096, 2048]", ""},
      {"self_attn.k_proj.bias", "bf16[4096]", ""},
      {"self_attn.o_proj.weight", "bf16[2048, 4096]", ""},
      {"self_attn.sinks", "bf16[0]", ""},
      {"self_attention/out/kernel", "bf16[0, 0, 4]", ""},
      {"mlp.experts.gate_up_proj", "bf16[0, 4, 4]", ""},
  };
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, kHuge, -kHuge}) {
    for (const int64_t dim : {int64_t{0}, int64_t{-128}, int64_t{4}, kHuge}) {
      CAPTURE(bad);
      CAPTURE(dim);
      Facts facts = attention_facts(bad, bad, dim);
      facts.experts = bad;
      check_units(rows, facts);
    }
  }
}

TEST_CASE("a unit always divides its dimension") {
  const std::vector<std::string> names = {"self_attn.q_proj.weight",
                                          "self_attn/k_proj/kernel",
                                          "self_attention/query/kernel",
                                          "self_attention/out/kernel",
                                          "self_attn.o_proj.weight",
                                          "self_attn.q_proj.bias",
                                          "self_attn.kv_b_proj.weight",
                                          "attn.c_proj.weight",
                                          "attn/c_proj/kernel",
                                          "self_attn.sinks",
                                          "mlp.experts.gate_up_proj",
                                          "mlp/experts/up_proj/bias",
                                          "mlp.gate_up_proj.weight",
                                          "self_attn.qkv_proj.weight",
                                          "attention.query_key_value.weight",
                                          "attn.c_attn.weight"};
  const std::vector<int64_t> sizes = {0, 1, 2, 3, 4, 6, 8};
  // All shapes of up to three dimensions of these sizes.
  std::vector<Shape> shapes = {{}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].size() == 3) continue;
    for (const int64_t size : sizes) {
      Shape longer = shapes[i];
      longer.push_back(size);
      shapes.push_back(std::move(longer));
    }
  }
  int claimed = 0;
  for (const std::string& name : names) {
    for (const int64_t count : sizes) {
      Facts facts = attention_facts(count, count, 2);
      facts.experts = count;
      for (const Shape& shape : shapes) {
        for (const Unit& unit : units_of(name, {DType::F32, shape}, facts)) {
          ++claimed;
          const auto dim = static_cast<size_t>(unit.dim);
          const bool divides = unit.dim >= 0 && dim < shape.size() &&
                               unit.count >= 1 && shape[dim] % unit.count == 0;
          CAPTURE(name);
          CAPTURE(shape_text(shape));
          CHECK(divides);
        }
      }
    }
  }
  CHECK(claimed > 0);
}

Declarations declared(const std::vector<std::string>& texts) {
  Declarations result;
  for (const std::string& text : texts) {
    REQUIRE(add_declaration(text, result));
  }
  return result;
}

Unit first_unit(const std::string& name, const std::string& type,
                const Facts& facts) {
  const auto units = units_of(name, testing::type(type), facts);
  REQUIRE(!units.empty());
  return units[0];
}

TEST_CASE("shards must divide the units, and packed tensors stay whole") {
  const Facts facts = attention_facts(32, 8, 128);
  const Unit kv = first_unit("self_attn.k_proj.weight", "f32[1024, 8]", facts);
  const Unit fused =
      first_unit("self_attn.qkv_proj.weight", "f32[6144, 8]", facts);
  for (const int64_t shards : {1, 2, 4, 8, 16, 3, 64}) {
    CAPTURE(shards);
    CHECK(is_cut(kv, shards, {}) == (8 % shards != 0));
    CHECK(is_cut(fused, shards, {}) == (shards > 1));
    CHECK(is_cut(fused, shards, declared({"interleave-qkv"})) ==
          (8 % shards != 0));
    CHECK(is_cut(fused, shards, declared({"interleave-gate-up"})) ==
          (shards > 1));
  }
}

TEST_CASE("KV heads are replicated for a multiple of them, up to the heads") {
  const Facts facts = attention_facts(32, 8, 128);
  const Unit kv = first_unit("self_attn.k_proj.weight", "f32[1024, 8]", facts);
  const Declarations copies = declared({"replicate-kv-heads"});
  CHECK(!is_cut(kv, 16, copies));
  CHECK(!is_cut(kv, 32, copies));
  CHECK(is_cut(kv, 64, copies));  // more shards than query heads
  CHECK(is_cut(kv, 12, copies));
  CHECK(is_cut(kv, 3, copies));
  // As if there were as many KV heads as shards.
  CHECK(stored_size(kv, 1024, 16, copies).size == 16 * 128);
  CHECK(stored_size(kv, 1024, 16, copies).why ==
        "replicate-kv-heads: one of 8 KV heads on each of 16 shards");
  CHECK(stored_size(kv, 1024, 8, copies).why.empty());
  CHECK(stored_size(kv, 1024, 12, copies).why.empty());
  CHECK(stored_size(kv, 1024, 16, {}).why.empty());
  // What lies within a head cannot be replicated away.
  const auto split = units_of("self_attention/key/kernel",
                              testing::type("f32[64, 8, 128]"), facts);
  REQUIRE(split.size() == 2);
  CHECK(stored_size(split[0], 8, 16, copies).size == 16);
  CHECK(split[1].inside);
  CHECK(is_cut(split[1], 16, copies));
}

TEST_CASE("fused projections replicate their keys and values only") {
  const Facts facts = attention_facts(32, 8, 128);
  const Unit group = first_unit("h.0.self_attention.query_key_value.weight",
                                "f32[6144, 8]", facts);
  const Declarations copies = declared({"replicate-kv-heads"});
  CHECK(is_cut(group, 16, {}));
  CHECK(!is_cut(group, 16, copies));
  // 32 query heads, and 16 keys and values.
  CHECK(stored_size(group, 6144, 16, copies).size == (32 + 2 * 16) * 128);
  const Unit fused =
      first_unit("self_attn.qkv_proj.weight", "f32[6144, 8]", facts);
  CHECK(is_cut(fused, 16, copies));
  CHECK(is_cut(fused, 16, declared({"interleave-qkv"})));
  const Declarations both = declared({"interleave-qkv", "replicate-kv-heads"});
  CHECK(!is_cut(fused, 16, both));
  CHECK(stored_size(fused, 6144, 16, both).size == (32 + 2 * 16) * 128);
  CHECK(stored_size(fused, 6144, 8, both).size == 6144);
  CHECK(stored_size(fused, 6144, 8, both).why ==
        "interleave-qkv: its part of q, k and v on each of 8 shards");
}

TEST_CASE("what is stored as declared is never less, and shards divide it") {
  CHECK(holds([] {
    const auto kv = draw_in<int64_t>(1, 9);
    const auto share = draw_in<int64_t>(1, 9);
    const auto dim = draw_in<int64_t>(1, 9);
    const auto shards = draw_in<int64_t>(1, 73);
    const auto name = draw_of<std::string>(
        {"self_attn.k_proj.weight", "self_attn.qkv_proj.weight",
         "self_attention.query_key_value.weight"});
    const int64_t heads = kv * share;
    const bool fused = name.find("proj.w") == std::string::npos ||
                       name.find("qkv") != std::string::npos;
    const int64_t rows = (fused ? heads + 2 * kv : kv) * dim;
    const auto units = units_of(name, {DType::F32, {rows, 3}},
                                attention_facts(heads, kv, dim));
    ENSURE(units.size() == 1);
    Declarations all;
    all.replicate_kv_heads = draw_bool();
    all.interleave_qkv = draw_bool();
    const StoredSize stored = stored_size(units[0], rows, shards, all);
    ENSURE(stored.size >= rows);
    if (is_cut(units[0], shards, all)) {
      ENSURE(stored.size == rows && stored.why.empty());
    } else {
      ENSURE(stored.size % shards == 0);
      ENSURE(!is_cut(units[0], shards, {}) || !stored.why.empty());
    }
  }));
}

TEST_CASE("axes of the batch meet no unit, but for stacked layers") {
  Unit unit;
  const AxisNames all = {"fsdp", "tp", "data", "stage", "pp", "ep"};
  CHECK(cutting_axes(unit, all) == AxisNames{"tp", "stage", "pp", "ep"});
  unit.kind = UnitKind::Layer;
  CHECK(cutting_axes(unit, all) == AxisNames{"fsdp", "tp", "data", "ep"});
  unit.kind = UnitKind::QuantBlock;
  CHECK(cutting_axes(unit, all) == AxisNames{"tp", "stage", "pp"});
}

TEST_CASE("given facts are taken, others inferred, with the reason") {
  Manifest model =
      testing::manifest({{"layers.0.self_attn.q_proj.weight", "bf16[64, 64]"},
                         {"layers.0.self_attn.k_proj.weight", "bf16[16, 64]"},
                         {"layers.0.self_attn.k_norm.weight", "bf16[8]"},
                         {"layers.0.mlp.down_proj.weight", "bf16[64, 32]"}});
  const UnitFacts inferred = unit_facts(model);
  CHECK(!inferred.are_trusted());
  CHECK(inferred.facts.heads == 8);
  CHECK(inferred.facts.kv_heads == 2);
  CHECK(!inferred.why.empty());
  CHECK(inferred.hints.down_inputs.at("down_proj").contains(32));

  model.facts.from = FactsFrom::Manifest;
  model.facts.heads = 4;
  const UnitFacts given = unit_facts(model);
  CHECK(given.are_trusted());
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

std::string text_of_facts(const UnitFacts& known) {
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
  std::string name = draw_of<std::string>(
      {"layers.#.self_attn.q_proj.weight", "layers.#.self_attn.k_norm.weight",
       "#/layers/mlp/down_proj/kernel", "t.#.layers.#.x", "layers.x",
       "layers.#.experts.#.down_proj.weight", "experts.#.w.#.weight",
       "vision/layers/#/attn/query/kernel", "MoeBlock_0/#", "experts/#/",
       "blk.#.attn_q.weight", "blk.#.ffn_down_exps.weight",
       "layers.#.experts.gate_up_proj_bias", "h/experts.#"});
  for (size_t at = name.find('#'); at != name.npos; at = name.find('#')) {
    name.replace(at, 1,
                 draw_of<std::string>({"0", "1", "7", "12", "007",
                                       "99999999999999999999", "*"}));
  }
  return name;
}

TEST_CASE("reading a name once per class loses nothing") {
  CHECK(holds([] {
    std::set<std::string> names;
    const auto count = draw_in(0, 30);
    for (int i = 0; i < count; ++i) names.insert(random_name());
    Manifest model;
    for (const std::string& name : names) {
      ENSURE(model.add(name,
                       testing::type(draw_of<std::string>(
                           {"f32[4]", "f32[64, 64]", "f32[4, 8, 16]"})),
                       {}));
    }
    const std::string slow =
        text_of_facts(unit_facts(model, each_apart(model)));
    ENSURE(text_of_facts(unit_facts(model, fold_by_type(model))) == slow);
    ENSURE(text_of_facts(unit_facts(model)) == slow);
  }));
}

TEST_CASE("what differs within a class is computed for every name of it") {
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
  const Manifest small = testing::manifest(
      {{"e.experts.3.w.weight", "f32[8]"}, {"e.experts.7.w.weight", "f32[8]"}});
  CHECK(infer_facts(small, fold_by_type(small)).facts.experts == 8);
}

}  // namespace

}  // namespace shardplan
