// SPDX-License-Identifier: Apache-2.0
// What architecture files say of what layers keep: read, walked, and what is
// wrong with it.
#include "model/generation_state.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/formats.h"
#include "memory/kv_cache.h"
#include "model/architectures.h"
#include "tests/support/messages.h"
#include "tests/support/read_architecture.h"

namespace shardplan {
namespace {

constexpr const char* kStateHead = R"(
architecture: a
sizes: {hidden: d, kv_heads: {is: 2}, head_dim: {is: 4}}
counts: {layers: {key: n, least: 0}}
)";

Facts facts_of(const std::string& file, const std::string& config) {
  const auto result = testing::read_architecture_text(file);
  CAPTURE(testing::messages(result->diags));
  REQUIRE(result->architecture);
  Diagnostics diags;
  const auto document = parse_document(
      std::make_shared<const SourceFile>("config.json", config), diags);
  REQUIRE(document);
  return config_facts(document->root(), result->architecture);
}

// Per layer "kv 2x8 w4", "?" where it is not known, "-" for nothing.
std::string text_of(const LayerStates& state) {
  constexpr const char* kPer[] = {"", " source", " sequence"};
  std::string text;
  for (const uint32_t number : state.layers) {
    const LayerState& layer = state.kinds[number];
    text += text.empty() ? "" : "; ";
    if (!layer.known) text += '?';
    if (layer.known && layer.cached.empty()) text += '-';
    for (const CachedTensor& each : layer.cached) {
      text += (&each == layer.cached.data() ? "" : ", ") + each.name + " " +
              std::to_string(each.heads) + "x" + std::to_string(each.width) +
              kPer[static_cast<size_t>(each.per)];
      if (each.tokens > 0) text += " of " + std::to_string(each.tokens);
      if (each.dtype) text += " " + std::string(dtype_name(*each.dtype));
    }
  }
  return text;
}

std::string states_of(const std::string& steps, const std::string& more = "",
                      int layers = 2) {
  return text_of(
      facts_of(kStateHead + more +
                   "classes:\n  A:\n    - repeat: layers\n      name: "
                   "l.{i}\n      steps:\n" +
                   steps,
               R"({"d": 8, "dtype": "bfloat16", "num_hidden_layers": )" +
                   std::to_string(layers) + R"(, "n": )" +
                   std::to_string(layers) + "}")
          .state);
}

TEST_CASE("a cache is of heads, or of nothing that could be cut") {
  CHECK(states_of("      - {cache: kv, of: {per: kv_heads, k: 4, v: 3}}\n") ==
        "kv 2x7; kv 2x7");
  CHECK(states_of("      - {cache: kv, of: kv_heads * head_dim}\n", "", 1) ==
        "kv 2x4");
  CHECK(states_of("      - {cache: latent, of: {latent: 6, rope: head_dim}}\n",
                  "", 1) == "latent 0x10");
  // One size alone is no count of heads.
  CHECK(states_of("      - {cache: index, of: hidden}\n", "", 1) ==
        "index 0x8");
  // Keys and values of one KV head.
  CHECK(states_of("      - {cache: kv, of: {per: 1, k: 4, v: 4}}\n", "", 1) ==
        "kv 1x8");
}

TEST_CASE("windows come from the table, unless the cache says one") {
  const std::string table = "tables: {window: {is: \"if(i == 0, 5, 0)\"}}\n";
  CHECK(states_of("      - {cache: kv, of: hidden}\n", table) ==
        "kv 0x8 of 5; kv 0x8");
  CHECK(states_of("      - {cache: kv, of: hidden, window: 2 + i}\n", table) ==
        "kv 0x8 of 2; kv 0x8 of 3");
  // Within a block, too, which sees no layer.
  CHECK(states_of("      - {b: x}\n",
                  table + "blocks: {b: [{cache: kv, of: hidden}]}\n") ==
        "kv 0x8 of 5; kv 0x8");
  const std::string unknown = "tables: {window: {is: \"if(i == 0, -1, 0)\"}}\n";
  CHECK(states_of("      - {cache: kv, of: hidden}\n", unknown) == "?; kv 0x8");
}

TEST_CASE("a state has a shape and parts that are shared out alone") {
  CHECK(
      states_of(
          "      - {state: ssm, shape: [kv_heads, head_dim, 3], dtype: f32}\n",
          "", 1) == "ssm 2x12 sequence f32");
  CHECK(
      states_of("      - {state: conv, shape: [{x: kv_heads * head_dim, b: 2 * "
                "hidden, c: hidden}, 3]}\n",
                "", 1) ==
      "conv 2x12 sequence bf16, conv 8x6 sequence bf16, conv 8x3 sequence "
      "bf16");
  CHECK(states_of("      - {state: last, shape: [3]}\n", "", 1) ==
        "last 0x3 sequence bf16");
}

TEST_CASE("what an encoder gives is kept, however many tokens that are") {
  CHECK(states_of("      - {cache: cross, of: hidden, tokens: source}\n", "",
                  1) == "cross 0x8 source");
  CHECK(states_of("      - {cache: cross, of: hidden, tokens: 3 * hidden}\n",
                  "", 1) == "cross 0x8 source of 24");
}

TEST_CASE("a layer of which nothing is said is not known") {
  CHECK(states_of("      - {cache: kv, of: hidden, when: i == 0}\n") ==
        "kv 0x8; ?");
  CHECK(states_of(
            "      - {cache: kv, of: hidden}\n      - {keeps: nothing, when: "
            "i == 1}\n") == "kv 0x8; -");
  CHECK(states_of("      - switch:\n"
                  "          - {when: i == 0, steps: [{keeps: nothing}]}\n"
                  "          - {steps: [{state: s, shape: [2]}]}\n") ==
        "-; s 0x2 sequence bf16");
  // Nothing is said of any: as before there were such steps.
  CHECK(states_of("      - {rms_norm: x, size: hidden}\n") == "");
  // Repeats within a layer are of that layer.
  CHECK(states_of(
            "      - {repeat: 2, index: j, name: \"{j}\", steps: [{cache: kv, "
            "of: hidden}]}\n",
            "", 1) == "kv 0x8, kv 0x8");
  // A size that is none: nothing of the layers is known.
  CHECK(states_of("      - {cache: kv, of: hidden / 3}\n") == "?; ?");
  // Outside of layers it belongs to none.
  CHECK(
      text_of(facts_of(kStateHead + std::string("classes: {A: [{cache: kv, of: "
                                                "hidden}]}\n"),
                       R"({"d": 8, "n": 1, "num_hidden_layers": 1})")
                  .state) == "?");
}

// Layers behind the last, which only a draft would run (Qwen 3.5's `mtp`).
TEST_CASE("a part beside the layers that keeps nothing has no layers") {
  const std::string file =
      kStateHead +
      std::string(
          "blocks:\n  further:\n    - {keeps: nothing}\n"
          "    - {repeat: 2, name: \"m.{i}\", steps: [{cache: kv, of: "
          "hidden}]}\n"
          "classes:\n  A:\n"
          "    - {repeat: layers, name: \"l.{i}\", steps: [{cache: kv, of: "
          "hidden}]}\n"
          "    - {further: mtp}\n");
  CHECK(text_of(facts_of(file, R"({"d": 8, "n": 1, "num_hidden_layers": 1})")
                    .state) == "kv 0x8");
}

TEST_CASE("names of what is kept, in order") {
  const auto result =
      testing::read_architecture_text(kStateHead + std::string(R"(
blocks: {b: [{state: conv, shape: [2]}, {c: ""}], c: [{cache: kv, of: 2}, {state: conv, shape: [1]}]}
classes: {A: [{repeat: layers, name: "{i}", steps: [{b: x}, {keeps: nothing, when: i == 3}]}]}
)"));
  REQUIRE(result->architecture);
  const ArchitectureClass& all = result->architecture->classes.front();
  CHECK(state_names(*result->architecture, all) ==
        std::vector<std::string>{"conv", "kv"});
  CHECK(declares_state(*result->architecture, all));
}

TEST_CASE("mistakes in what is kept are reported with their places") {
  const auto problems = [](const std::string& step) {
    const auto result = testing::read_architecture_text(
        kStateHead +
        std::string("classes: {A: [{repeat: layers, name: "
                    "\"{i}\", steps: [") +
        step + "]}]}\n");
    CHECK(result->architecture == nullptr);
    for (const Diagnostic& each : result->diags.all()) {
      CHECK_FALSE(each.labels.empty());
    }
    return testing::messages(result->diags);
  };
  const auto has = [&](const std::string& step, std::string_view part) {
    const std::string all = problems(step);
    CAPTURE(all);
    CHECK(all.find(part) != all.npos);
    const bool key = part.starts_with("unknown key");
    CHECK(all.starts_with(key ? "SP004" : "SP018"));
  };
  has("{cache: kv}", "`kv` needs `of`");
  has("{cache: \"\", of: 1}", "`cache` has no name");
  has("{cache: [kv], of: 1}", "`cache` must be a string");
  has("{cache: kv, of: []}", "`kv` needs `of`");
  has("{cache: kv, of: nobody}", "`nobody` is not defined here");
  has("{cache: kv, of: 1, window: nobody}", "`nobody` is not defined here");
  has("{cache: kv, of: 1, when: nobody}", "`nobody` is not defined here");
  has("{cache: kv, of: 1, tokens: nobody}", "`nobody` is not defined here");
  has("{cache: kv, of: 1, window: 1, tokens: source}", "give either `window`");
  has("{cache: kv, of: 1, window: \"1 +\"}", "is not a valid expression");
  has("{cache: kv, of: 1, dtype: f32}", "unknown key `dtype`");
  has("{cache: kv, of: {}}", "a dimension has no parts");
  has("{state: s}", "`s` needs a list `shape`");
  has("{state: s, shape: 3}", "`s` needs a list `shape`");
  has("{state: s, shape: []}", "`s` needs a list `shape`");
  has("{state: s, shape: [1], dtype: f31}", "`f31` is not a dtype");
  has("{state: s, shape: [1, nobody]}", "`nobody` is not defined here");
  has("{keeps: something}", "`keeps` must be `nothing`");
  has("{keeps: nothing, of: 1}", "unknown key `of`");
  const auto block =
      testing::read_architecture_text(kStateHead + std::string(R"(
blocks: {cache: [], state: [], keeps: []}
classes: {A: []}
)"));
  const std::string all = testing::messages(block->diags);
  for (const char* name : {"cache", "state", "keeps"}) {
    CHECK(all.find("`" + std::string(name) +
                   "` cannot be the name of a block") != all.npos);
  }
}

TEST_CASE("what is kept takes time and place in proportion to the layers") {
  const std::string file = kStateHead + std::string(R"(
tables: {window: {is: i % 7}}
blocks:
  deep: [{cache: kv, of: {per: kv_heads, k: head_dim}}]
  mixer: [{deep: a}, {deep: b}]
classes: {A: [{repeat: layers, name: "l.{i}", steps: [{mixer: x}]}]}
)");
  const Facts facts =
      facts_of(file, R"({"d": 8, "n": 100000, "num_hidden_layers": 100000})");
  CHECK(facts.state.layers.size() == 100'000);
  CHECK(facts.state.kinds.size() == 7);
  // Each differs from each: more than are looked at is not known.
  const std::string differ = kStateHead + std::string(R"(
classes:
  A:
    - repeat: layers
      name: "l.{i}"
      steps: [{repeat: layers, index: j, name: "{j}", steps: [{cache: kv, of: i + j + 1}]}]
)");
  CHECK(
      text_of(
          facts_of(differ, R"({"d": 8, "n": 9, "num_hidden_layers": 2})").state)
          .size() > 100);
  const Facts unknown =
      facts_of(differ, R"({"d": 8, "n": 100000, "num_hidden_layers": 2})");
  CHECK(text_of(unknown.state) == "?; ?");
  CHECK(kv_missing(unknown) == "the state of 2 layers");
  // Blocks that use one another without end.
  const auto loop = testing::read_architecture_text(kStateHead + std::string(R"(
blocks: {a: [{b: x}, {cache: kv, of: 1}], b: [{a: x}]}
classes: {A: [{repeat: layers, name: "l.{i}", steps: [{a: x}]}]}
)"));
  REQUIRE(loop->architecture);
  Diagnostics diags;
  const auto document = parse_document(
      std::make_shared<const SourceFile>(
          "config.json", R"({"d": 8, "n": 2, "num_hidden_layers": 2})"),
      diags);
  REQUIRE(document);
  CHECK(text_of(config_facts(document->root(), loop->architecture).state) ==
        "?; ?");
}

TEST_CASE("sizes of what is kept stay within 63 bits, or are not known") {
  CHECK(states_of("      - {state: s, shape: [1099511627776, 1099511627776]}\n",
                  "", 1) == "?");
  CHECK(states_of("      - {state: s, shape: [1099511627777]}\n", "", 1) ==
        "?");
  CHECK(states_of("      - {cache: kv, of: hidden, window: 1099511627777}\n",
                  "", 1) == "?");
  CHECK(states_of("      - {cache: kv, of: hidden, tokens: 0}\n", "", 1) ==
        "?");
}

}  // namespace
}  // namespace shardplan
