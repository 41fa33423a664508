// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "io/dialects.h"
#include "tests/io/document_text.h"
#include "tests/support/exported.h"

namespace shardplan {
namespace {

std::string axes_of_rules(const AxisNames& axes) {
  std::string all;
  for (const AxisName& axis : axes) all += (all.empty() ? "" : ",") + axis;
  return all;
}

// "pattern -> P(..)" per rule, then axes and mesh, then diagnostics.
std::string rules_text(const std::string& text) {
  Diagnostics diags;
  RuleSet rules;
  const bool good = kYamlRules.read(std::make_shared<SourceFile>("r", text), {},
                                    rules, diags);
  std::string all;
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + " -> " + spec_text(rule.spec) + "\n";
  }
  if (!rules.declared_axes.empty()) {
    all += "axes " + axes_of_rules(rules.declared_axes) + "\n";
  }
  if (rules.mesh) {
    all += "mesh";
    for (const AxisRequest& axis : *rules.mesh) {
      all += " " + axis.name + "=" + std::to_string(axis.size);
    }
    all += "\n";
  }
  return (good ? "" : "refused\n") + all + testing::text_of(diags);
}

struct RulesCase {
  std::string text;
  std::string expected;
};

void check_rules(std::span<const RulesCase> cases) {
  for (const RulesCase& c : cases) {
    CAPTURE(c.text);
    CHECK(rules_text(c.text) == c.expected);
  }
}

TEST_CASE("both forms of a rule are read, in YAML and in JSON") {
  const RulesCase kCases[] = {
      {"rules:\n  - [\"embed\", [tp, [fsdp, sp]]]\n"
       "  - {pattern: norm, spec: []}\n",
       "embed -> P(tp, (fsdp, sp))\nnorm -> P()\n"},
      {R"({"rules": [["a", ["tp", null]], {"spec": [null], "pattern": "b"}]})",
       "a -> P(tp, None)\nb -> P(None)\n"},
      {"- [a, [tp]]\n", "a -> P(tp)\n"},
      {"rules: []\n", ""},
  };
  check_rules(kCases);
}

TEST_CASE("entries of a spec are canonicalised as JAX does") {
  const RulesCase kCases[] = {
      {"- [a, [[tp]]]\n", "a -> P(tp)\n"},
      {"- [a, [[], '', null, ~]]\n", "a -> P(None, None, None, None)\n"},
      {"- [a, [[tp, tp]]]\n", "a -> P((tp, tp))\n"},
      {"- [a, [BATCH, x.y-z_1]]\n", "a -> P(BATCH, x.y-z_1)\n"},
  };
  check_rules(kCases);
}

TEST_CASE("axes and a mesh may stand beside the rules") {
  const RulesCase kCases[] = {
      {"axes: [dp, tp]\nmesh: {fsdp: 8, tp: -1}\nrules: []\n",
       "axes dp,tp\nmesh fsdp=8 tp=-1\n"},
      {"mesh: fsdp=8,tp=4\nrules: []\n", "mesh fsdp=8 tp=4\n"},
      {"mesh: 'fsdp:8'\nrules: []\n", "mesh fsdp=8\n"},
  };
  check_rules(kCases);
}

TEST_CASE("places of rules, specs and axes are those of the file") {
  Diagnostics diags;
  RuleSet rules;
  const std::string text =
      "mesh: 'fsdp=8,tp=4'\nrules:\n  - [\"e.*\", [tp, [a, b]]]\n";
  REQUIRE(kYamlRules.read(std::make_shared<SourceFile>("r", text), {}, rules,
                          diags));
  REQUIRE(rules.rules.size() == 1);
  const Rule& rule = rules.rules[0];
  CHECK(rule.where.text() == "\"e.*\"");
  CHECK(rule.spec_where.text() == "[tp, [a, b]]");
  REQUIRE(rule.dim_where.size() == 2);
  CHECK(rule.dim_where[0].text() == "tp");
  CHECK(rule.dim_where[1].text() == "[a, b]");
  REQUIRE(rules.mesh);
  CHECK((*rules.mesh)[1].where.text() == "tp=4");
  CHECK((*rules.mesh)[1].name_where.text() == "tp");
  CHECK((*rules.mesh)[1].size_where.text() == "4");
  CHECK(rules.mesh_where.text() == "'fsdp=8,tp=4'");
  CHECK(rules.sources.size() == 1);
}

TEST_CASE("a mesh given as a map has places too") {
  Diagnostics diags;
  RuleSet rules;
  REQUIRE(kYamlRules.read(
      std::make_shared<SourceFile>("r", "mesh: {fsdp: 8}\nrules: []\n"), {},
      rules, diags));
  CHECK((*rules.mesh)[0].where.text() == "fsdp: 8");
  CHECK((*rules.mesh)[0].name_where.text() == "fsdp");
  CHECK((*rules.mesh)[0].size_where.text() == "8");
}

TEST_CASE("common mistakes in rules are reported with their place") {
  const RulesCase kCases[] = {
      {"- [a]\n", "refused\nSP002 1:3 a rule has 1 item instead of 2\n"},
      {"- [a, [tp], x]\n",
       "refused\nSP002 1:3 a rule has 3 items instead of 2\n"},
      {"- a\n",
       "refused\nSP002 1:3 a rule must be a list or a map, not a string\n"},
      {"- [a, tp]\n",
       "refused\nSP002 1:7 `tp` is neither a list nor a preset\n"},
      {"- [a, ~]\n", "refused\nSP002 1:7 a spec must be a list, not null\n"},
      {"- [1, []]\n",
       "refused\nSP002 1:4 `pattern` must be a string, not an integer\n"},
      {"- {pattern: a}\n", "refused\nSP002 1:3 a rule has no `spec`\n"},
      {"- {spec: []}\n", "refused\nSP002 1:3 a rule has no `pattern`\n"},
      {"- {patern: a, spec: []}\n",
       "refused\nSP004 1:4 unknown key `patern`\n"},
      {"- [a, [tp, 3]]\n",
       "refused\nSP002 1:12 `axis` must be a string, not an integer\n"},
      {"- [a, [t p]]\n", "refused\nSP002 1:8 `t p` is not an axis name\n"},
      {"- [a, [[tp, '']]]\n", "refused\nSP002 1:13 `` is not an axis name\n"},
      {"- [a, [[tp, ~]]]\n",
       "refused\nSP002 1:13 `null` is inside a list of axes\n"},
      {"- [a, [[tp, [x]]]]\n",
       "refused\nSP002 1:13 `axis` must be a string, not a list\n"},
      {"- [a, ['mesh:tp']]\n", "a -> P(mesh:tp)\n"},
      {"rules: 3\n",
       "refused\nSP002 1:8 `rules` must be a list, not an integer\n"},
      {"mesh: {tp: 2}\n",
       "refused\nmesh tp=2\nSP002 1:1 the key `rules` is missing\n"},
      {"- [a, [tp]]\n- [b, x]\n- [c, [y]]\n",
       "refused\na -> P(tp)\nc -> P(y)\n"
       "SP002 2:7 `x` is neither a list nor a preset\n"},
  };
  check_rules(kCases);
}

TEST_CASE("common mistakes beside the rules are reported with their place") {
  const RulesCase kCases[] = {
      {"rules: []\nruels: []\n", "refused\nSP004 2:1 unknown key `ruels`\n"},
      {"rules: []\nactivations: []\npartition_axis: {}\n"
       "logical_axis_rules: []\n",
       ""},
      {"rules: []\nactivations: {}\npartition_axis: []\n"
       "logical_axis_rules: x\n",
       "refused\nSP002 2:14 `activations` must be a list, not a map\n"
       "SP002 3:17 `partition_axis` must be a map, not a list\n"
       "SP002 4:21 `logical_axis_rules` must be a list, not a string\n"},
      {"rules: []\naxes: [dp, 1, dp]\n",
       "refused\nSP002 2:12 `axis` must be a string, not an integer\n"
       "SP003 2:15 axis `dp` is declared twice (first declared here 2:8)\n"},
      {"rules: []\nmesh: {tp: x}\n",
       "refused\nSP002 2:12 `tp` must be an integer, not a string\n"},
      {"rules: []\nmesh: {tp: 99999999999999999999}\n",
       "refused\nSP007 2:12 the size of axis `tp` does not fit in 63 bits\n"},
      {"rules: []\nmesh: [tp]\n",
       "refused\nSP002 2:7 `mesh` must be a map, not a list\n"},
      {"rules: []\nmesh: tp=x\n",
       "refused\nSP007 2:10 `x` is not the size of an axis\n"},
      {"rules: []\nrules: []\n",
       "refused\nSP003 2:1 key `rules` is given twice (first given here "
       "1:1)\n"},
      {"hello\n", "refused\nSP006 1:1 this is not a rules file\n"},
      {"", "refused\nSP006 1:1 this is not a rules file\n"},
      {"w: {shape: [1], dtype: f32}\n",
       "refused\nSP006 1:1 this is not a rules file\n"},
      {"rules: [\n",
       "refused\nSP002 2:1 malformed YAML: end of sequence flow "
       "not found\n"},
  };
  check_rules(kCases);
}

TEST_CASE("reading rules stops after twenty errors and says so") {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "- [a]\n";
  const std::string problems = rules_text(text);
  CHECK(std::count(problems.begin(), problems.end(), '\n') == 22);
  CHECK(problems.find("SP002 21:3 the rules from here on were not read") !=
        std::string::npos);
}

TEST_CASE("any text may hold rules") {
  CHECK(kYamlRules.recognize("- [a, []]\n"));
  CHECK_FALSE(kYamlRules.recognize(std::string("\0", 1)));
}

using testing::exported;
using testing::Exporting;

Exporting model() {
  return {testing::manifest({{"layers/0/w", "f32[8, 8]"},
                             {"layers/1/w", "f32[8, 8]"},
                             {"norm", "f32[7]"},
                             {"odd\"name", "f32[8]"}}),
          testing::rules({{"\\bw$", "(fsdp, sp), tp"}, {"norm|name", "tp"}},
                         {"sp"}),
          testing::mesh("fsdp=2,tp=2")};
}

TEST_CASE("YAML holds the rules as they are, with what they come from") {
  CHECK(exported("yaml", model()) ==
        R"(# Partition rules, as given; `shardplan export --to yaml`.
# model: m.json
# mesh: fsdp=2,tp=2
axes: [sp]
mesh: {fsdp: 2, tp: 2}
rules:
  - ["\\bw$", [[fsdp, sp], tp]]
  - ["norm|name", [tp]]
)");
}

TEST_CASE("JSON holds the same without comments") {
  CHECK(exported("json", model()) == R"({
  "axes": ["sp"],
  "mesh": {"fsdp": 2, "tp": 2},
  "rules": [
    ["\\bw$", [["fsdp", "sp"], "tp"]],
    ["norm|name", ["tp"]]
  ]
}
)");
}

TEST_CASE("a plan without rules is a rule per parameter or layer") {
  Exporting what = model();
  what.saved = true;
  CHECK(
      exported("yaml", what) ==
      R"(# Partition rules, one per parameter or layer; `shardplan export --to yaml`.
# model: m.json
# mesh: fsdp=2,tp=2
# a saved plan has no rules
mesh: {fsdp: 2, tp: 2}
rules:
  - ["^layers/[0-9]+/w$", [fsdp, tp]]
  - ["^norm$", []]
  - ["^odd\"name$", [tp]]
)");
}

TEST_CASE("logical and semantic axes and activations are written as well") {
  Exporting what = model();
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}},
                              {"mlp", {"fsdp", "tp"}, {}, {}},
                              {"no", {}, {}, {}},
                              {std::nullopt, {"tp"}, {}, {}}};
  Diagnostics diags;
  what.rules.partition_axis =
      resolve_partition_axis(default_partition_axis(), diags);
  Rule activation;
  activation.pattern = "hidden";
  activation.spec = testing::spec("BATCH, None");
  what.rules.activations = {activation};
  const std::string text = exported("yaml", what);
  CHECK(text.find("logical_axis_rules:\n"
                  "  - [embed, fsdp]\n"
                  "  - [mlp, [fsdp, tp]]\n"
                  "  - [\"no\", null]\n"
                  "  - [null, tp]\n"
                  "partition_axis: {data_parallel_axis: dp, ") !=
        std::string::npos);
  CHECK(text.find("batch_axis: [fsdp, dp], sequence_axis: sp, ") !=
        std::string::npos);
  CHECK(text.ends_with("activations:\n  - [\"hidden\", [BATCH, null]]\n"));
  what.saved = true;
  CHECK(exported("yaml", what).find("activations") == std::string::npos);
}

TEST_CASE("rules that this format has no words for become the table") {
  Exporting what = model();
  what.rules.rules[0].from_last = true;
  CHECK(exported("yaml", what)
            .find("# the rules count dimensions from the end\n") !=
        std::string::npos);
  what = model();
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}}};
  what.rules.logical_reading = LogicalReading::Mapping;
  CHECK(exported("yaml", what)
            .find("# the rules map several names to one mesh axis\n") !=
        std::string::npos);
  what = model();
  what.how.on_indivisible = OnIndivisible::Prefix;
  what.rules =
      testing::rules({{"w", ""}, {"norm", ""}, {"name", "(tp, fsdp)"}});
  what.model = testing::manifest({{"name", "f32[6]"}});
  CHECK(exported("json", what) == R"({
  "mesh": {"fsdp": 2, "tp": 2},
  "rules": [
    ["^name$", ["tp"]]
  ]
}
)");
}

}  // namespace

}  // namespace shardplan
