// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/dialects/dialects.h"
#include "tests/io/document_text.h"
#include "tests/support/planned_model.h"
#include "tests/support/resolved.h"

namespace shardplan {
namespace {

using nlohmann::json;

// "pattern -> P(..)" per rule, then diagnostics.
std::string rules_text(const std::string& text, RuleReading reading = {}) {
  Diagnostics diags;
  RuleSet rules;
  const bool good = kHfTpPlan.read(std::make_shared<SourceFile>("r", text),
                                   reading, rules, diags);
  std::string all;
  for (const Rule& rule : rules.rules) {
    all += rule.pattern + " -> " + spec_text(rule.spec) +
           (rule.from_last ? " from the last\n" : "\n");
  }
  return (good ? "" : "refused\n") + all + testing::text_of(diags);
}

TEST_CASE("entries become anchored rules, and what has none is replicated") {
  const std::string expected =
      "^(?:(?:model|transformer|language_model)\\.)*l\\.\\d+\\.q(?:\\.bias)$"
      " -> P(tp) from the last\n"
      "^(?:(?:model|transformer|language_model)\\.)*l\\.\\d+\\.q(?:\\.[^.]+)?$"
      " -> P(tp, None) from the last\n"
      ".* -> P()\n";
  CHECK(rules_text("{\"base_model_tp_plan\": {\"l.*.q\": \"colwise\"}}") ==
        expected);
  CHECK(rules_text("base_model_tp_plan:\n  l.*.q: colwise\n") == expected);
  CHECK(rules_text("{'l.*.q': 'colwise',}") == expected);
  CHECK(rules_text("class C:\n  base_model_tp_plan: dict = {\n"
                   "    \"l.*\" \".q\": \"colwise\",  # heads\n  }\n") ==
        expected);
  CHECK(rules_text(
            "{\"model_type\": \"x\", \"base_model_pp_plan\": {\"a\": 1}, "
            "\"base_model_tp_plan\": {\"l.*.q\": \"colwise\"}}") == expected);
}

TEST_CASE("each style cuts its dimension of weights and of biases") {
  const auto rules = [](const std::string& style) {
    return rules_text("{\"tp_plan\": {\"a\": \"" + style + "\"}}");
  };
  const std::string rest = ".* -> P()\n";
  CHECK(rules("rowwise") ==
        "^a(?:\\.bias)$ -> P()\n"
        "^a(?:\\.[^.]+)?$ -> P(tp) from the last\n" +
            rest);
  CHECK(rules("grouped_gemm") == "^a(?:\\.[^.]+)?$ -> P(tp)\n" + rest);
  CHECK(rules("sequence_parallel") == "^a(?:\\.[^.]+)?$ -> P()\n" + rest);
  CHECK(rules_text("{\"tp_plan\": {\"a.bias\": \"rowwise\"}}") ==
        "^a\\.bias(?:\\.[^.]+)?$ -> P()\n" + rest);
}

TEST_CASE("a style that is none is refused with the nearest name") {
  Diagnostics diags;
  RuleSet rules;
  const auto source = std::make_shared<SourceFile>(
      "r", "{\"tp_plan\": {\"a\": \"colwize\", \"b\": \"\", \"c\": 3}}");
  CHECK_FALSE(kHfTpPlan.read(source, {}, rules, diags));
  CHECK(testing::text_of(diags) ==
        "SP002 1:44 the style of `c` must be text, not an integer\n"
        "SP002 1:19 `colwize` is not a style of tensor parallelism\n"
        "SP002 1:35 `` is not a style of tensor parallelism\n");
  CHECK(diags.all()[1].help[0] == "a style with a similar name is `colwise`");
}

TEST_CASE("a key that no name folds to is dropped with a warning") {
  CHECK(rules_text("{\"tp_plan\": {\"e.*.w1\": \"rowwise\"}}") ==
        ".* -> P()\nSP102 1:14 `e.*.w1` can stand for no parameter\n");
  CHECK(rules_text("{\"transformers_version\": \"5.23.0\", "
                   "\"tp_plan\": {\"e.*.w1\": \"grouped_gemm\"}}") ==
        "^e\\.\\d+\\.w1(?:\\.[^.]+)?$ -> P(tp)\n.* -> P()\n");
  CHECK(rules_text("{\"transformers_version\": \"5.1\", "
                   "\"tp_plan\": {\"e.*.*\": \"gather\"}}") ==
        "^e\\.\\d+\\.\\d+(?:\\.[^.]+)?$ -> P()\n.* -> P()\n");
}

TEST_CASE("plans are chosen by name, and those of one model are one") {
  const std::string both =
      "{\"tp_plan\": {\"a\": \"gather\"}, \"base_model_tp_plan\": {\"b\": "
      "\"local\"}, \"base_model_ep_plan\": {\"c\": \"ep_router\"}}";
  CHECK(rules_text(both) ==
        "^a(?:\\.[^.]+)?$ -> P()\n"
        "^(?:(?:model|transformer|language_model)\\.)*b(?:\\.[^.]+)?$ -> P()\n"
        ".* -> P()\n");
  CHECK(rules_text(both, {"base_model_ep_plan", {}}) ==
        "^(?:(?:model|transformer|language_model)\\.)*c(?:\\.[^.]+)?$ -> P()\n"
        ".* -> P()\n");
  CHECK(rules_text(both, {"x", {}}) ==
        "refused\nSP002 1:1 no plan is named `x`\n");
  CHECK(rules_text("a = {\"x\": \"colwise\"}\nb = {\"x\": \"colwise\"}\n") ==
        "refused\nSP002 1:1 the file holds 2 plans\n");
}

TEST_CASE("what is no plan is refused") {
  CHECK(rules_text("[1]") ==
        "refused\nSP002 1:1 `tp_plan` must be a map, not a "
        "list\n");
  CHECK(rules_text("{\"tp_plan\": 3}") ==
        "refused\nSP002 1:13 `tp_plan` must be a map, not an integer\n");
  CHECK(rules_text("{\"tp_plan\": null}") ==
        "refused\nSP002 1:1 no tensor-parallel plan is found\n");
  CHECK(rules_text("tp_plan = {\"a\": STYLE, **more}") ==
        "refused\nSP002 1:17 the style of `a` is not a string\n"
        "SP002 1:24 this entry has no literal key\n");
  CHECK(rules_text("{\"transformers_version\": \"new\", \"tp_plan\": {}}") ==
        "refused\nSP002 1:26 `new` is not a version of transformers\n");
}

TEST_CASE("plans are recognised by their keys or their styles") {
  CHECK(kHfTpPlan.recognize("{\"x\": \"colwise\"}"));
  CHECK(kHfTpPlan.recognize("x.y : rowwise\n"));
  CHECK(kHfTpPlan.recognize("  base_model_tp_plan = {"));
  CHECK_FALSE(kHfTpPlan.recognize("rules:\n- [\"colwise\", [tp]]\n"));
  CHECK_FALSE(kHfTpPlan.recognize("unmatched: replicate\n"));
}

TEST_CASE("names find the entries that transformers finds for them") {
  const json record = testing::read_json(testing::data_path("hf_tp_plan.json"));
  for (const char* version : {"before", "since"}) {
    CAPTURE(version);
    const json plan = {{"transformers_version",
                        std::string(version) == "since" ? "5.23.0" : "4.57.1"},
                       {"tp_plan", record.at("plan")}};
    Diagnostics diags;
    const RuleSet rules = testing::read_rules(kHfTpPlan, plan.dump(), diags);
    const auto matcher = Matcher::compile(rules, false, diags);
    REQUIRE(matcher);
    for (const json& row : record.at("rows")) {
      CAPTURE(row.dump());
      std::vector<int> found;
      matcher->find(row.at("name").get<std::string>(), found);
      REQUIRE_FALSE(found.empty());
      const Rule& rule = rules.rules[static_cast<size_t>(found.front())];
      if (row.at(version).is_null()) {
        CHECK(rule.pattern == ".*");
      } else {
        CHECK(rule.spec_where.text() ==
              row.at(version).dump());  // the style, in quotes
      }
    }
  }
}

}  // namespace
}  // namespace shardplan
