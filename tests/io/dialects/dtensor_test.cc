// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/dialects/dialects.h"
#include "resolve/match.h"
#include "tests/io/document_text.h"
#include "tests/support/planned_model.h"

namespace shardplan {
namespace {

// "pattern -> P(..)" per rule, then axes, mesh and diagnostics.
std::string rules_text(const std::string& text, RuleReading reading = {}) {
  Diagnostics diags;
  RuleSet rules;
  const bool good = kDtensor.read(std::make_shared<SourceFile>("r", text),
                                  reading, rules, diags);
  std::string all;
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + " -> " + spec_text(rule.spec) +
           (rule.from_last ? " from the last\n" : "\n");
  }
  for (const AxisName& axis : rules.declared_axes) all += axis + " ";
  if (rules.mesh) {
    for (const AxisRequest& axis : *rules.mesh) {
      all += axis.name + "=" + std::to_string(axis.size) + " ";
    }
  }
  return (good ? "" : "refused\n") + all + testing::text_of(diags);
}

TEST_CASE("placements are read from YAML, JSON and Python") {
  const std::string expected =
      "^a\\.w$ -> P(None, (dp, tp))\n^b$ -> P()\ndp tp ";
  CHECK(rules_text("mesh_dim_names: [dp, tp]\nplacements:\n"
                   "  a.w: [Shard(1), Shard(1)]\n"
                   "  b: '[Replicate(), Replicate()]'\n") == expected);
  CHECK(rules_text("{\"mesh_dim_names\": [\"dp\", \"tp\"], \"placements\": {"
                   "\"a.w\": [\"Shard(1)\", \"Shard(1)\"], "
                   "\"b\": [\"R\", \"R\"]}}") == expected);
  const RuleReading named = {std::nullopt, {"dp", "tp"}};
  CHECK(rules_text("from torch.distributed.tensor import Shard\n"
                   "plan = {\n  'a.w': (Shard(1), Shard(1)),\n"
                   "  'b': [Replicate(), Replicate()],\n}\n",
                   named) == expected);
  CHECK(rules_text("{'a.w': [Shard(1), Shard(1)], 'b': [Replicate(), "
                   "Replicate()]}",
                   named) == expected);
}

TEST_CASE("mesh dimensions are in the order of their names") {
  CHECK(rules_text("mesh_dim_names: [dp, tp]\nmesh: {tp: 4, dp: 2}\n"
                   "placements: {a: [\"_StridedShard(0, split_factor=4)\", "
                   "\"Shard(0)\"]}\n") ==
        "^a$ -> P((tp, dp))\ndp tp dp=2 tp=4 ");
  CHECK(rules_text("mesh: {tp: 4}\nplacements: {a: [Shard(0)]}\n") ==
        "^a$ -> P(tp)\ntp tp=4 ");
}

TEST_CASE("keys are matched part by part as fnmatch does") {
  const RuleSet rules = [] {
    Diagnostics diags;
    return testing::read_rules(
        kDtensor,
        "{\"mesh_dim_names\": [\"x\"], \"placements\": {"
        "\"l.*.w[13].weight\": \"Shard(0)\", \"l.[!0-4].?\": \"Shard(0)\", "
        "\"a[[]0]\": \"Shard(0)\", \"b[x\": \"Shard(0)\", "
        "\"c[]^].d\": \"Shard(0)\"}}",
        diags);
  }();
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, false, diags);
  REQUIRE(matcher);
  const auto found = [&](std::string_view name) {
    std::vector<int> numbers;
    matcher->find(name, numbers);
    return !numbers.empty();
  };
  CHECK(found("l.0.w1.weight"));
  CHECK(found("l..w3.weight"));
  CHECK_FALSE(found("l.0.w2.weight"));
  CHECK_FALSE(found("l.0.1.w1.weight"));
  CHECK(found("l.5.q"));
  CHECK_FALSE(found("l.4.q"));
  CHECK_FALSE(found("l.5.qq"));
  CHECK(found("a[0]"));
  CHECK(found("b[x"));
  CHECK(found("c].d"));
  CHECK(found("c^.d"));
  CHECK_FALSE(found("c].d.e"));
}

TEST_CASE("mistakes are refused at their places") {
  struct Case {
    std::string text;
    std::string expected;
  };
  const Case kCases[] = {
      {"{'a': [Shard(0)]}",
       "refused\nSP002 1:1 the mesh dimensions have no names\n"},
      {"mesh_dim_names: [x]\nplacements: {a: [Shard(0), Shard(0)], b: "
       "[Partial()], c: 3, d: [Shard(0) x]}\n",
       "refused\nx SP002 2:17 there are 2 placements for 1 mesh dimension\n"
       "SP014 2:43 a parameter cannot be Partial()\n"
       "SP002 2:58 a placement must be text, not an integer\n"
       "SP002 2:65 something stands behind the placement\n"},
      {"mesh_dim_names: [x, x]\nplacements: {}\n",
       "refused\nSP002 1:21 mesh dimension `x` appears twice\n"},
      {"mesh_dim_names: [x]\nmesh: {x: 2, y: 2}\nplacements: {}\n",
       "refused\nSP002 1:17 `mesh` has 2 sizes for 1 name\n"},
      {"mesh_dim_names: [z]\nmesh: {x: 2}\nplacements: {}\n",
       "refused\nSP002 1:18 `mesh` has no size of `z`\n"},
      {"mesh: {x: 0}\nplacements: {}\n",
       "refused\nSP007 1:11 `x` is no mesh dimension of a size\n"},
      {"mesh: [2]\nplacements: {}\n",
       "refused\nSP002 1:7 `mesh` must be a map, not a list\n"},
      {"mesh_dims: [x]\nplacements: {}\n",
       "refused\nSP004 1:1 key `mesh_dims` means nothing here\n"},
      {"- Shard(0)\n",
       "refused\nSP002 1:1 `placements` must be a map, not a "
       "list\n"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.text);
    CHECK(rules_text(c.text) == c.expected);
  }
  CHECK(rules_text("p = {'a': [Shard(0)] + x, **y, 'b': [Shard(n)]}",
                   {std::nullopt, {"x"}}) ==
        "refused\nx SP002 1:22 this is not evaluated\n"
        "SP002 1:44 this is no argument of a placement\n"
        "SP002 1:27 this entry has no literal key\n");
  CHECK(rules_text("p = {'a': [Shard(0)]}\nq = {'a': [Shard(0)]}\n",
                   {std::nullopt, {"x"}}) ==
        "refused\nSP002 1:1 the file holds 2 dictionaries of placements\n");
  CHECK(rules_text("p = {'a': [Shard(0)]}\nq = {'a': [Shard(1)]}\n",
                   {"q", {"x"}}) == "^a$ -> P(None, x)\nx ");
}

}  // namespace
}  // namespace shardplan
