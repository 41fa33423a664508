// SPDX-License-Identifier: Apache-2.0
// Tables with conditions, names and EasyDeL's specs of experts.
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/partition_axis.h"
#include "io/python/rules.h"
#include "io/spec_node.h"
#include "tests/io/document_text.h"
#include "tests/support/hf_config.h"
#include "tests/support/json_axes.h"

namespace shardplan {
namespace {

using nlohmann::json;

struct SettledRules {
  std::string text;  // "pattern -> spec" per rule
  std::string problems;
  std::vector<std::string> facts;
  std::vector<std::string> questions;
};

SettledRules settled(const std::string& text,
                     std::vector<RuleAnswer> answers = {}) {
  RuleReading reading;
  reading.answers = std::move(answers);
  RuleSet rules;
  Diagnostics diags;
  SettledRules result;
  read_python_rules(std::make_shared<SourceFile>("r.py", text), reading, rules,
                    diags);
  for (const Rule& rule : rules.rules) {
    result.text += rule.pattern + " -> " + spec_text(rule.spec) + "\n";
  }
  result.problems = testing::text_of(diags);
  for (const Diagnostic& problem : diags.all()) {
    result.facts.insert(result.facts.end(), problem.facts.begin(),
                        problem.facts.end());
  }
  result.questions = rules.questions;
  return result;
}

TEST_CASE("a condition is asked for, with both readings") {
  const std::string text =
      "def rules(self):\n"
      "  return ((\"a\", P(\"tp\") if self.wide else P(None, \"tp\")),)\n";
  const SettledRules asked = settled(text);
  CHECK(asked.problems == "SP002 2:28 the table depends on `wide`\n");
  CHECK(asked.facts == std::vector<std::string>{"line 2: `P(\"tp\")` if true, "
                                                "`P(None, \"tp\")` if false"});
  CHECK(asked.questions == std::vector<std::string>{"wide"});
  CHECK(settled(text, {{"wide", "true"}}).text == "a -> P(tp)\n");
  CHECK(settled(text, {{"wide", "False"}}).text == "a -> P(None, tp)\n");
  CHECK(settled(text, {{"wide", "maybe"}}).problems == asked.problems);
}

TEST_CASE("conditions may have not, and, or") {
  const auto chosen = [](const std::string& condition, const char* a,
                         const char* b) {
    return settled("r = ((\"x\", P(\"yes\") if " + condition +
                       " else P(\"no\")),)\n",
                   {{"a", a}, {"b", b}})
        .text;
  };
  CHECK(chosen("not a", "true", "true") == "x -> P(no)\n");
  CHECK(chosen("a and not self.b", "true", "false") == "x -> P(yes)\n");
  CHECK(chosen("a or b", "false", "true") == "x -> P(yes)\n");
  CHECK(chosen("not (a or b)", "false", "false") == "x -> P(yes)\n");
  CHECK(chosen("a and b or True", "false", "false") == "x -> P(yes)\n");
  CHECK(settled("r = ((\"x\", P(\"a\") if n > 1 else P(\"b\")),)\n").problems ==
        "SP002 1:22 the condition `n > 1` is not supported: use only names "
        "with `not`, `and` and `or`\n");
}

TEST_CASE("a condition may choose whole tables, with brackets and without") {
  const std::string bracketed =
      "def f(fsdp=True):\n  return (\n    (\n      (\"a\", P(\"tp\")),\n"
      "      (\".*\", P()),\n    )\n    if not fsdp\n    else (\n"
      "      (\"b\", P(\"fsdp\")),\n      (\"c\", P()),\n      (\".*\", P()),\n"
      "    )\n  )\n";
  const SettledRules asked = settled(bracketed);
  CHECK(asked.problems == "SP002 7:12 the table depends on `fsdp`\n");
  CHECK(asked.facts ==
        std::vector<std::string>{"line 7: a table of 3 rules if true, "
                                 "a table of 2 rules if false"});
  CHECK(settled(bracketed, {{"fsdp", "false"}}).text ==
        "a -> P(tp)\n.* -> P()\n");
  const std::string plain =
      "r = ((\"a\", P(\"tp\")),) if wide else ((\"b\", P()),)\n";
  CHECK(settled(plain, {{"wide", "true"}}).text == "a -> P(tp)\n");
  CHECK(settled(plain, {{"wide", "false"}}).text == "b -> P()\n");
}

TEST_CASE("names stand for what was assigned to them last") {
  CHECK(settled("AXIS = \"tp\"\ndef f():\n  row = P(AXIS, None)\n"
                "  return ((\"a\", row), (\"b\", P(None, AXIS)))\n")
            .text == "a -> P(tp, None)\nb -> P(None, tp)\n");
  CHECK(settled("def f():\n  more = ((\"b\", P()),)\n"
                "  return ((\"a\", P(\"tp\")), *more)\n")
            .text == "a -> P(tp)\nb -> P()\n");
  CHECK(settled("def f():\n  row = P(\"a\")\n  row = P(\"b\")\n"
                "  return ((\"a\", row),)\n")
            .text == "a -> P(b)\n");
  const std::string conditional =
      "def f(x):\n  if x:\n    row = P(\"a\")\n  return ((\"a\", row),)\n";
  CHECK(settled(conditional).problems ==
        "SP002 2:6 the table depends on `x`\n");
  CHECK(settled(conditional, {{"x", "true"}}).text == "a -> P(a)\n");
  CHECK(settled("rules = []\nrules.append(rules)\n"
                "rules.append((\"a\", P()))\nr = [(\"b\", P()), *rules]\n")
            .problems.find("this value refers to itself") != std::string::npos);
}

TEST_CASE("what is not followed is said at its place") {
  CHECK(settled("r = ((\"a\", make_spec(\"tp\")),)\n").problems ==
        "SP002 1:12 the call to `make_spec` is not evaluated\n");
  CHECK(settled("r = ((\"a\", P(\"tp\")), *other())\n").problems ==
        "SP002 1:23 `other()` cannot be read: its items are not literals in "
        "this file\n");
  CHECK(settled("r = ((\"a\", P(\"tp\")\n   + P(\"x\")),)\n").problems ==
        "SP002 2:4 this `+` is not evaluated: `P(\"tp\")` is not a literal in "
        "this file\n");
  CHECK(settled("r = ((\"a\", P(\"tp\"))\n   (\"b\", P()),)\n").problems ==
        "SP002 2:4 expected a comma or `)` before this\n");
  CHECK(settled("r = ((\"\\N{BULLET}\", P(\"tp\")),)\n").problems ==
        "SP002 1:7 character names, `\\N{..}`, are not supported\n");
}

TEST_CASE("Python without a table says what it has") {
  const SettledRules none = settled(
      "class A:\n  def get_partition_rules(self):\n"
      "    return None\n");
  CHECK(none.problems ==
        "SP002 1:1 no table of rules found in this Python file\n");
  CHECK(none.facts == std::vector<std::string>{
                          "line 3: `get_partition_rules` has `return None`"});
  CHECK(settled("import x\nlayers = 3\n").facts ==
        std::vector<std::string>{"it defines `layers`"});
  CHECK(looks_like_python_rules("import x\n"));
  CHECK_FALSE(looks_like_python_rules("from: x\nclass: y\n"));
}

std::string table_text(const json& table) {
  std::string text = "(\n";
  if (table.is_object()) {
    return "(" + table_text(table.at("then")) + "\nif " +
           table.at("condition").get<std::string>() + "\nelse " +
           table_text(table.at("else")) + ")";
  }
  for (const json& rule : table) {
    text += "        (" + rule.at(0).dump() + ", " +
            rule.at(1).get<std::string>() + "),\n";
  }
  return text + "    )";
}

std::string recorded_rules(const json& rules) {
  std::string text;
  for (const json& rule : rules) {
    PartitionSpec spec;
    if (rule.at(1).is_string()) {
      const auto* preset = find_sharding_preset(rule.at(1).get<std::string>());
      REQUIRE(preset != nullptr);
      spec = preset_spec(*preset);
    } else {
      for (const json& dim : rule.at(1)) {
        spec.dims.push_back(dim.get<AxisNames>());
      }
    }
    text += rule.at(0).get<std::string>() + " -> " + spec_text(spec) + "\n";
  }
  return text;
}

TEST_CASE("EasyDeL's tables are what Python makes of them") {
  const json records =
      testing::read_json(testing::data_path("easydel_tables.json"));
  CHECK(records.size() >= 12);
  int readings = 0;
  for (const json& record : records) {
    CAPTURE(record.at("class").get<std::string>());
    std::string text = "class Config:\n  def get_partition_rules(self):\n";
    for (const json& line : record.at("locals")) {
      text += "    " + line.get<std::string>() + "\n";
    }
    text += "    return " + table_text(record.at("table")) + "\n";
    for (const json& reading : record.at("readings")) {
      std::vector<RuleAnswer> answers;
      for (const auto& [name, value] : reading.at("answers").items()) {
        answers.push_back({name, value.get<bool>() ? "true" : "false"});
      }
      const SettledRules found = settled(text, answers);
      CHECK(found.problems == "");
      CHECK(found.text == recorded_rules(reading.at("rules")));
      if (!answers.empty()) {
        CHECK(found.questions.size() == answers.size());
        CHECK(settled(text).problems.find("the table depends on") !=
              std::string::npos);
      }
      ++readings;
    }
  }
  CHECK(readings >= 77);
}

}  // namespace
}  // namespace shardplan
