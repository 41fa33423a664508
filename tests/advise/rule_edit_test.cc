// SPDX-License-Identifier: Apache-2.0
#include "advise/rule_edit.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/advised.h"
#include "tests/support/generators.h"

namespace shardplan {
namespace {

using testing::read_rules;
using testing::spec;

// A rules file in one of the layouts that people use.
rc::Gen<std::string> file_text() {
  return rc::gen::exec([] {
    const auto count = *rc::gen::inRange(1, 5);
    const bool json = *rc::gen::arbitrary<bool>();
    const bool lines = *rc::gen::arbitrary<bool>();
    const std::string end = *rc::gen::element<std::string>("\n", "\r\n");
    std::string text = json ? "{\"rules\": [" : "# top" + end + "rules:";
    for (int i = 0; i < count; ++i) {
      const std::string name = "name" + std::to_string(i);
      const std::string source = spec_source(*testing::gen::any_spec(), json);
      if (json) {
        text +=
            (i > 0 ? "," : "") + (lines ? end + "  " : " ") +
            *rc::gen::element<std::string>(
                "[\"" + name + "\", " + source + "]",
                "{\"pattern\": \"" + name + "\", \"spec\": " + source + "}");
        continue;
      }
      text += end + *rc::gen::element<std::string>(
                        "  - [\"" + name + "\", " + source + "]",
                        "  - ['" + name + "', " + source + "]  # remark",
                        "  # above" + end + "  - {pattern: " + name +
                            ", spec: " + source + "}",
                        "  -  pattern: " + name + " # remark" + end +
                            "     spec: " + source);
    }
    text += json ? end + "]}" : end + "mesh: {tp: 2}  # kept";
    return text + *rc::gen::element<std::string>("", end);
  });
}

RuleChange any_change(int rules) {
  RuleChange change;
  change.kind =
      *rc::gen::element(RuleChange::Kind::SetSpec, RuleChange::Kind::SetPattern,
                        RuleChange::Kind::Insert, RuleChange::Kind::Remove,
                        RuleChange::Kind::Move);
  const bool insert = change.kind == RuleChange::Kind::Insert;
  change.rule = *rc::gen::inRange(1, rules + (insert ? 2 : 1));
  change.before = *rc::gen::inRange(1, change.rule + 1);
  change.spec = *testing::gen::any_spec();
  change.pattern = *rc::gen::element<std::string>("a$", "(b|c)\\.d$", "it's");
  change.added = {{"x\\.y$", *testing::gen::any_spec()},
                  {"z", *testing::gen::any_spec()}};
  return change;
}

using Entries = std::vector<std::pair<std::string, PartitionSpec>>;
Entries entries_of(const RuleSet& rules) {
  Entries entries;
  for (const Rule& rule : rules.rules) {
    entries.emplace_back(rule.pattern, rule.spec);
  }
  return entries;
}

int remarks_in(const std::string& text) {
  int count = 0;
  for (const char c : text) count += c == '#' ? 1 : 0;
  return count;
}

TEST_CASE("an edited file reads as the changed rules") {
  int made = 0;
  CHECK(rc::check("edits say the change, and keep every other byte and remark",
                  [&] {
                    const std::string text = *file_text();
                    const RuleSet rules = read_rules(text);
                    const RuleChange change =
                        any_change(static_cast<int>(rules.rules.size()));
                    if (change.kind == RuleChange::Kind::Move &&
                        change.before == change.rule) {
                      return;
                    }
                    const std::vector<TextEdit> edits = edits_of(rules, change);
                    // The only rule cannot go, and the same spec needs no edit.
                    if (edits.empty()) return;
                    ++made;
                    const std::string after = edited(text, edits);
                    RC_LOG() << text << "\n---\n" << after;
                    RC_ASSERT(entries_of(read_rules(after)) ==
                              entries_of(changed(rules, change).rules));
                    if (change.kind != RuleChange::Kind::Remove) {
                      RC_ASSERT(remarks_in(after) == remarks_in(text));
                    }
                    for (size_t i = 1; i < edits.size(); ++i) {
                      RC_ASSERT(edits[i - 1].where.end <= edits[i].where.begin);
                    }
                  }));
  CHECK(made > 50);
}

std::string after(const std::string& text, const RuleChange& change) {
  return edited(text, edits_of(read_rules(text), change));
}

TEST_CASE("only the entries that differ are replaced") {
  const std::string text =
      "rules:\n  - [\"w\", [ tp ,\n      fsdp ]]   # why\n  - [\"v\", []]\n";
  RuleChange change;
  change.spec = spec("tp, None");
  CHECK(after(text, change) ==
        "rules:\n  - [\"w\", [ tp ,\n      null ]]   # why\n  - [\"v\", []]\n");
  change.spec = spec("tp");
  CHECK(after(text, change) ==
        "rules:\n  - [\"w\", [ tp ]]   # why\n  - [\"v\", []]\n");
  change.rule = 2;
  CHECK(after(text, change) ==
        "rules:\n  - [\"w\", [ tp ,\n      fsdp ]]   # why\n  - [\"v\", "
        "[tp]]\n");
}

TEST_CASE("what aliases share is not edited") {
  const std::string text =
      "rules:\n  - [\"w\", &s [tp]]\n  - [\"v\", *s]\n  - [\"u\", [tp]]\n";
  RuleChange change;
  change.spec = spec("fsdp");
  CHECK(edits_of(read_rules(text), change).empty());
  change.rule = 2;
  CHECK(edits_of(read_rules(text), change).empty());
  change.rule = 3;
  CHECK(edits_of(read_rules(text), change).size() == 1);
}

TEST_CASE("rules without a file of the user's own are not edited") {
  RuleSet rules = read_rules("rules:\n  - [\"w\", [tp]]\n");
  rules.rules.front().shipped = true;
  RuleChange change;
  CHECK(edits_of(rules, change).empty());
  change.kind = RuleChange::Kind::Insert;
  change.added = {{"v", {}}};
  CHECK(edits_of(rules, change).empty());
}

TEST_CASE("axes that YAML would misread are quoted") {
  CHECK(spec_source({{{"null"}, {"tp", "true"}, {}}}, false) ==
        "[\"null\", [tp, \"true\"], null]");
  CHECK(rule_source("a\\.b", {{{"tp"}}}, true) == R"(["a\\.b", ["tp"]])");
  CHECK(rule_source("a\\.b", {{{"tp"}}}, false) == R"(['a\.b', [tp]])");
  CHECK(rule_source("it's\\.", {}, false) == R"(["it's\\.", []])");
}

}  // namespace
}  // namespace shardplan
