// SPDX-License-Identifier: Apache-2.0
#include "resolve/python_regex.h"

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "resolve/match.h"
#include "tests/support/builders.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using Json = nlohmann::json;

// One digit per name, empty where the pattern is refused, "?" where a warning
// says that the answer may differ.
std::string answer(const std::string& pattern,
                   const std::vector<std::string>& names, bool plain) {
  Diagnostics diags;
  RuleSet rules;
  rules.rules.push_back({pattern, {}, {}, {}, {}, false});
  const auto matcher = Matcher::compile(rules, plain, diags);
  if (!matcher) {
    CHECK(diags.cannot_run());
    return "";
  }
  if (!diags.all().empty()) return "?";
  std::string text;
  std::vector<int> found;
  for (const std::string& name : names) {
    matcher->find(name, found);
    text += found.empty() ? '0' : '1';
  }
  return text;
}

// What RE2, or the translation, cannot do though Python can.
const std::set<std::string> kRefused = {"(?=a)",
                                        "(?!a)",
                                        "(?<=a)b",
                                        "(?<!a)b",
                                        "(?>a)",
                                        "(a)\\1",
                                        "(?P<x>a)(?P=x)",
                                        "(a)?(?(1)b|c)",
                                        "a++",
                                        "a*+",
                                        "a?+",
                                        "a{2}+",
                                        "a{1001}",
                                        "(?x) a",
                                        "(?P<é>a)",
                                        "\\N{DIGIT ONE}",
                                        "\\ud800",
                                        "(?a:a)",
                                        "(?u:a)",
                                        "^(?!.*(?:embedding|norm|lm_head)).*$"};
// Refused where some names are not ASCII.
const std::set<std::string> kRefusedBeyondAscii = {
    "(?i)k",      "(?i)KERNEL", "(?ims)A", "(?i:K)",  "(?i)(?s)a",
    "(?#c)(?i)K", "(?s-i:a.)",  "(?-i:a)", "(?m:a$)", "(?:$)?"};

TEST_CASE("patterns are found where Python finds them, or refused") {
  std::ifstream file(source_dir() / "tests/data/python_regex.jsonl");
  std::string line;
  REQUIRE(std::getline(file, line));
  const Json head = Json::parse(line);
  const auto plain = head.at("names").get<std::vector<std::string>>();
  const auto all = head.at("unicode_names").get<std::vector<std::string>>();
  int compared = 0;
  while (std::getline(file, line)) {
    const Json row = Json::parse(line);
    const auto pattern = row.at("pattern").get<std::string>();
    CAPTURE(pattern);
    const std::string ours = answer(pattern, plain, true);
    const std::string beyond = answer(pattern, all, false);
    if (row.at("plain").is_null()) {
      CHECK(ours.empty());
      CHECK(beyond.empty());
      continue;
    }
    ++compared;
    const bool refused = kRefused.contains(pattern);
    if (refused || pattern == "(?i)\u0130") {
      CHECK(ours.empty());
      CHECK(beyond.empty());
      continue;
    }
    CHECK(ours == row.at("plain").get<std::string>());
    if (kRefusedBeyondAscii.contains(pattern)) {
      CHECK(beyond.empty());
    } else if (beyond != "?") {
      CHECK(beyond == row.at("unicode").get<std::string>());
    } else {
      const bool may = pattern.find("\\b") != pattern.npos ||
                       pattern.find("\\B") != pattern.npos;
      CHECK(may);
    }
  }
  CHECK(compared > 700);
}

TEST_CASE("a refusal marks the fragment and says what helps") {
  struct Row {
    const char* pattern;
    size_t begin;
    size_t end;
    const char* message;
  };
  for (const Row& row :
       {Row{"a(?=b)", 1, 4, "look-ahead is not supported"},
        {"(a)\\1", 3, 5, "back-references are not supported"},
        {"a(?i)", 1, 5, "flags must stand at the very beginning"},
        {"x[ab", 1, 4, "the character class is not closed"},
        {"ab\\", 2, 3, "the pattern ends in a backslash"},
        {"a{1,2000}", 1, 9, "repetition beyond 1000 is not supported"},
        {"^*", 1, 2, "there is nothing to repeat"},
        {"(?au)", 0, 5, "the flags `a` and `u` exclude each other"}}) {
    CAPTURE(row.pattern);
    const auto result = translate_pattern(row.pattern, true);
    const auto* problem = std::get_if<PatternProblem>(&result);
    REQUIRE(problem != nullptr);
    CHECK(problem->begin == row.begin);
    CHECK(problem->end == row.end);
    CHECK(problem->message == row.message);
  }
}

TEST_CASE("`$` spelled out may end alternatives, but nothing follows it") {
  const std::vector<std::string> names = {"a\n", "a", "b\n", "ab"};
  CHECK(answer("(a$|b)", names, false) == "1111");
  CHECK(answer("(?:a|b$)", names, false) == "1111");
  CHECK(answer("^a$", names, false) == "1100");
  for (const char* pattern : {"a$\n", "(a$|b)\n", "$\\A", "(?:$|b)c", "$^"}) {
    CAPTURE(pattern);
    CHECK(answer(pattern, names, false).empty());
  }
}

TEST_CASE("no group is turned into flags by what follows its name") {
  for (const char* pattern : {"a(?P<n>?)", "(?P<n>?i)", "(?P<n>*)"}) {
    CAPTURE(pattern);
    CHECK(answer(pattern, {"a"}, true).empty());
  }
}

}  // namespace
}  // namespace shardplan
