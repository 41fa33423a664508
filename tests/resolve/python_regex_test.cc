// SPDX-License-Identifier: Apache-2.0
#include "resolve/python_regex.h"

#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "resolve/match.h"
#include "tests/support/builders.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

// The pattern in RE2's syntax; "refused" if it cannot be used.
std::string translated(std::string_view pattern, bool plain = true) {
  const auto result = translate_pattern(pattern, plain);
  const auto* const found = std::get_if<TranslatedPattern>(&result);
  return found == nullptr ? "refused" : found->re2;
}

TEST_CASE("escapes give their character, spelled so that RE2 takes it as one") {
  struct Row {
    const char* text;
    const char* re2;
  };
  for (const Row& row : {Row{"a_", "a_"},
                         {"\\n1", "\\x{a}1"},
                         {"\\x41f", "Af"},
                         {"\\u00e90", "\\x{e9}0"},
                         {"\\U0001F600", "\\x{1f600}"},
                         {"\\0", "\\x{0}"},
                         {"\\078", "\\x{7}8"},
                         {"\\1011", "A1"},
                         {"\\.", "\\x{2e}"},
                         {"\\é", "\\x{e9}"}}) {
    CAPTURE(row.text);
    CHECK(translated(row.text) == row.re2);
  }
}

TEST_CASE("escapes that Python does not know are refused") {
  for (const char* text : {"\\y", "\\x4", "\\u12", "\\ud800", "\\U00110000",
                           "\\1", "\\8", "\\400"}) {
    CAPTURE(text);
    CHECK(translated(text) == "refused");
  }
}

TEST_CASE("a number is an octal character inside a class") {
  CHECK(translated("[\\12]") == "[\\x{a}]");
  CHECK(translated("[\\8]") == "refused");
}

TEST_CASE("classes end at the first bracket that is not their first member") {
  struct Row {
    const char* text;
    const char* re2;
  };
  for (const Row& row : {Row{"[ab]c", "[ab]c"},
                         {"[]a]]", "[\\x{5d}a]]"},
                         {"[^]a]", "[^\\x{5d}a]"},
                         {"[a-]", "[a\\x{2d}]"},
                         {"[a-c]", "[\\x{61}-\\x{63}]"},
                         {"[\\d.]", "[0-9\\x{2e}]"}}) {
    CAPTURE(row.text);
    CHECK(translated(row.text) == row.re2);
  }
  for (const char* text : {"[", "[]", "[a", "[^]", "[b-a]", "[\\d-z]"}) {
    CAPTURE(text);
    CHECK(translated(text) == "refused");
  }
}

TEST_CASE("only `\\W` inside a class is narrowed to ASCII, and says so") {
  const auto result = translate_pattern("[\\W\\w\\d\\s]", false);
  REQUIRE(std::holds_alternative<TranslatedPattern>(result));
  CHECK(std::get<TranslatedPattern>(result).ascii_only == "\\W");
  CHECK(translated("\\W", false) == "[^\\p{L}\\p{N}_]");
  CHECK(translated("\\d", false) == "[\\p{Nd}]");
}

using RecordedJson = nlohmann::json;

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
  const RecordedJson head = RecordedJson::parse(line);
  const auto plain = head.at("names").get<std::vector<std::string>>();
  const auto all = head.at("unicode_names").get<std::vector<std::string>>();
  int compared = 0;
  while (std::getline(file, line)) {
    const RecordedJson row = RecordedJson::parse(line);
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
        {"a(?i)", 1, 5, "flags must be at the start of the pattern"},
        {"x[ab", 1, 4, "the character class is not closed"},
        {"ab\\", 2, 3, "the pattern ends in a backslash"},
        {"a{1,2000}", 1, 9, "repetition beyond 1000 is not supported"},
        {"^*", 1, 2, "there is nothing to repeat"},
        {"(?au)", 0, 5, "the flags `a` and `u` are mutually exclusive"}}) {
    CAPTURE(row.pattern);
    const auto result = translate_pattern(row.pattern, true);
    const auto* problem = std::get_if<PatternProblem>(&result);
    REQUIRE(problem != nullptr);
    CHECK(problem->begin == row.begin);
    CHECK(problem->end == row.end);
    CHECK(problem->message == row.message);
  }
}

TEST_CASE("a pattern that would take seconds to compile is refused") {
  constexpr size_t kMost = size_t{128} << 10U;
  const auto longest = translate_pattern(std::string(kMost, 'a'), true);
  CHECK(std::holds_alternative<TranslatedPattern>(longest));
  const auto longer = translate_pattern(std::string(kMost + 1, 'a'), true);
  const auto* problem = std::get_if<PatternProblem>(&longer);
  REQUIRE(problem != nullptr);
  CHECK(problem->message == "it has 131,073 bytes; the limit is 131,072");
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
