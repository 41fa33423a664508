// SPDX-License-Identifier: Apache-2.0
#include "advise/rule_layout.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "advise/rule_edit.h"
#include "tests/support/advised.h"

namespace shardplan {
namespace {

using testing::read_rules;

// The text after the edit that `make` gives for a rule (0-based).
template <typename Make>
std::string after(const std::string& text, size_t rule, const Make& make) {
  const RuleSet rules = read_rules(text);
  const auto layout = RulePlaces(rules).layout_of(rules.rules.at(rule));
  if (!layout) return "no layout";
  const std::optional<TextEdit> edit = make(*layout);
  if (!edit) return "no edit";
  return edited(text, std::vector<TextEdit>{*edit});
}

std::string removed(const std::string& text, size_t rule) {
  return after(text, rule, removal_of);
}
std::string with_before(const std::string& text, size_t rule) {
  const std::vector<std::string> added = {"[n, []]"};
  return after(text, rule, [&](const ItemLayout& item) {
    return std::optional(insertion_before(item, added));
  });
}
std::string with_behind(const std::string& text, size_t rule) {
  const std::vector<std::string> added = {"[n, []]"};
  return after(text, rule, [&](const ItemLayout& item) {
    return std::optional(insertion_behind(item, added));
  });
}

TEST_CASE("a rule of a block list owns its lines") {
  const std::string text =
      "rules:\n  - [a, []]  # of a\n  # of b\n  - pattern: b\n    spec: []\n";
  CHECK(removed(text, 0) == "rules:\n  # of b\n  - pattern: b\n    spec: []\n");
  CHECK(removed(text, 1) == "rules:\n  - [a, []]  # of a\n  # of b\n");
  CHECK(with_before(text, 1) ==
        "rules:\n  - [a, []]  # of a\n  # of b\n  - [n, []]\n  - pattern: b\n  "
        "  spec: []\n");
  CHECK(with_behind(text, 0) ==
        "rules:\n  - [a, []]  # of a\n  - [n, []]\n  # of b\n  - pattern: b\n  "
        "  spec: []\n");
  CHECK(with_behind("rules:\n  - [a, []]", 0) ==
        "rules:\n  - [a, []]\n  - [n, []]");
}

TEST_CASE("a rule of a flow list stands between commas") {
  const std::string line = R"({"rules": [["a", []], ["b", []]]})";
  CHECK(removed(line, 0) == R"({"rules": [["b", []]]})");
  CHECK(removed(line, 1) == R"({"rules": [["a", []]]})");
  CHECK(with_before(line, 1) ==
        R"({"rules": [["a", []], [n, []], ["b", []]]})");
  CHECK(with_behind("[\n  [\"a\", []]\n]", 0) ==
        "[\n  [\"a\", []],\n  [n, []]\n]");
}

TEST_CASE("the last rule of a file stays, and so does text between rules") {
  CHECK(removed("rules:\n  - [a, []]\n", 0) == "no edit");
  CHECK(removed("rules: [[a, []], # why\n  [b, []]]\n", 0) == "no edit");
}

TEST_CASE("a file is JSON by its first character") {
  CHECK(is_json(SourceFile("x", "\xEF\xBB\xBF \n{}")));
  CHECK(is_json(SourceFile("x", "[]")));
  CHECK_FALSE(is_json(SourceFile("x", "rules: []")));
  CHECK_FALSE(is_json(SourceFile("x", "")));
}

}  // namespace
}  // namespace shardplan
