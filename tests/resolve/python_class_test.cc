// SPDX-License-Identifier: Apache-2.0
#include "resolve/python_class.h"

#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

TEST_CASE("literals are spelled so that RE2 takes them as characters") {
  CHECK(literal('a') == "a");
  CHECK(literal('_') == "_");
  CHECK(literal('.') == "\\x{2e}");
  CHECK(literal(0) == "\\x{0}");
  CHECK(literal(0x1f600) == "\\x{1f600}");
}

TEST_CASE("escapes give their character and move behind themselves") {
  struct Row {
    const char* text;
    char32_t code;
    size_t end;
  };
  for (const Row& row : {Row{"\\n1", '\n', 2},
                         {"\\x41f", 'A', 4},
                         {"\\u00e90", 0xe9, 6},
                         {"\\U0001F600", 0x1f600, 10},
                         {"\\0", 0, 2},
                         {"\\078", 7, 3},
                         {"\\1011", 'A', 4},
                         {"\\.", '.', 2},
                         {"\\é", 0xe9, 3}}) {
    CAPTURE(row.text);
    size_t at = 0;
    const auto code = character_escape(row.text, at, false);
    REQUIRE(std::holds_alternative<char32_t>(code));
    CHECK(std::get<char32_t>(code) == row.code);
    CHECK(at == row.end);
  }
}

TEST_CASE("escapes that Python does not know are refused") {
  for (const char* text : {"\\y", "\\x4", "\\u12", "\\ud800", "\\U00110000",
                           "\\1", "\\8", "\\400"}) {
    CAPTURE(text);
    size_t at = 0;
    CHECK(std::holds_alternative<PatternProblem>(
        character_escape(text, at, false)));
  }
}

TEST_CASE("a number is an octal character inside a class") {
  size_t at = 0;
  CHECK(std::get<char32_t>(character_escape("\\12", at, true)) == '\n');
  at = 0;
  CHECK(std::holds_alternative<PatternProblem>(
      character_escape("\\8", at, true)));
}

TEST_CASE("classes end at the first bracket that is not their first member") {
  struct Row {
    const char* text;
    const char* re2;
    size_t end;
  };
  for (const Row& row : {Row{"[ab]c", "[ab]", 4},
                         {"[]a]]", "[\\x{5d}a]", 4},
                         {"[^]a]", "[^\\x{5d}a]", 5},
                         {"[a-]", "[a\\x{2d}]", 4},
                         {"[a-c]", "[\\x{61}-\\x{63}]", 5},
                         {"[\\d.]", "[0-9\\x{2e}]", 5}}) {
    CAPTURE(row.text);
    size_t at = 0;
    const auto result = translate_class(row.text, at, true);
    REQUIRE(std::holds_alternative<TranslatedClass>(result));
    CHECK(std::get<TranslatedClass>(result).re2 == row.re2);
    CHECK(at == row.end);
  }
  for (const char* text : {"[", "[]", "[a", "[^]", "[b-a]", "[\\d-z]"}) {
    CAPTURE(text);
    size_t at = 0;
    CHECK(std::holds_alternative<PatternProblem>(
        translate_class(text, at, true)));
  }
}

TEST_CASE("only `\\W` inside a class is narrowed to ASCII, and says so") {
  size_t at = 0;
  const auto result = translate_class("[\\W\\w\\d\\s]", at, false);
  REQUIRE(std::holds_alternative<TranslatedClass>(result));
  CHECK(std::get<TranslatedClass>(result).ascii_only == "\\W");
  CHECK_FALSE(class_escape_ranges('W', false).has_value());
  CHECK(class_escape_ranges('d', false) == "\\p{Nd}");
}

}  // namespace
}  // namespace shardplan
