// SPDX-License-Identifier: Apache-2.0
#include "io/python_tokens.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

namespace shardplan {
namespace {

// "n:rules o:= s:text", without the End.
std::string tokens_text(const std::string& text) {
  const SourceFile source("rules.py", text);
  std::string out;
  for (const PythonToken& token : python_tokens(source)) {
    if (token.kind == PythonTokenKind::End) break;
    constexpr const char* kLetters = "nssfob";
    const char letter = token.kind == PythonTokenKind::Number
                            ? 'd'
                            : kLetters[static_cast<int>(token.kind)];
    out += (out.empty() ? "" : " ") + std::string(1, letter) + ":" + token.text;
  }
  return out;
}

// The value of one string literal.
std::string value_of(const std::string& literal) {
  const SourceFile source("rules.py", literal);
  const auto tokens = python_tokens(source);
  REQUIRE(tokens.size() == 2);
  CHECK(tokens.front().where.text() == literal);
  if (tokens.front().kind != PythonTokenKind::String) {
    return "no string: " + tokens.front().text;
  }
  return tokens.front().text;
}

TEST_CASE("names, numbers and operators are told apart") {
  CHECK(tokens_text("a.b(1.5e3, _x2) -> [*y] ** 2 != 'z'") ==
        "n:a o:. n:b o:( d:1.5e3 o:, n:_x2 o:) o:-> o:[ o:* n:y o:] o:** d:2 "
        "o:!= s:z");
  CHECK(tokens_text("größe = .5") == "n:größe o:= d:.5");
  CHECK(tokens_text("").empty());
}

TEST_CASE("comments, blanks and joined lines are skipped") {
  CHECK(tokens_text("a # 'b'\n\t\\\n  c\f\r\n# end") == "n:a n:c");
  const SourceFile source("rules.py", "a b\n  c \\\n d\n'x\\\ny' e");
  std::string firsts;
  for (const PythonToken& token : python_tokens(source)) {
    if (token.starts_line) firsts += token.text + ";";
  }
  CHECK(firsts == "a;c;xy;");
}

TEST_CASE("strings have the value that Python gives them") {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"'a'", "a"},
      {"\"it's\"", "it's"},
      {"''", ""},
      {"'''a\n'b' \"c\"'''", "a\n'b' \"c\""},
      {R"("\\.\"\'\n\t\x41\101\60\u00e9\U0001F600")", "\\.\"'\n\tAA0é😀"},
      {"'\\0'", nullptr},
      {R"('\d\.\w\-')", R"(\d\.\w\-)"},
      {R"(r'\d\'x\\')", R"(\d\'x\\)"},
      {R"(R"\x41")", R"(\x41)"},
      {"u'a'", "a"},
      {"'a\\\nb'", "ab"},
      {"r'a\\\nb'", "a\\\nb"},
  };
  for (const auto& row : rows) {
    const char* literal = row.first;
    const char* value = row.second;
    CAPTURE(literal);
    CHECK(value_of(literal) ==
          (value == nullptr ? std::string(1, '\0') : std::string(value)));
  }
}

TEST_CASE("lines may end as on Windows") {
  CHECK(tokens_text("'''a\r\nb''' 'c\\\r\nd'") == "s:a\nb s:cd");
  const SourceFile source("rules.py", "a \\\r\n b\r\nc");
  const auto tokens = python_tokens(source);
  CHECK_FALSE(tokens[1].starts_line);
  CHECK(tokens[2].starts_line);
}

TEST_CASE("what is computed or of bytes is no plain text") {
  for (const char* literal :
       {"f'a{b}'", "F\"a\"", "b'a'", "rb'a'", "Rf'a'", "bR\"\"\"a\"\"\""}) {
    CAPTURE(literal);
    const SourceFile source("rules.py", literal);
    CHECK(python_tokens(source).front().kind == PythonTokenKind::Formatted);
  }
  // A prefix that is none is a name.
  CHECK(tokens_text("x'a'") == "n:x s:a");
  CHECK(tokens_text("rrr'a'") == "n:rrr s:a");
}

TEST_CASE("adjacent strings stay apart, each at its place") {
  const SourceFile source("rules.py", "('a' \"b\")");
  const auto tokens = python_tokens(source);
  REQUIRE(tokens.size() == 5);
  CHECK(tokens[1].where.text() == "'a'");
  CHECK(tokens[2].where.text() == "\"b\"");
  CHECK(tokens.back().kind == PythonTokenKind::End);
}

TEST_CASE("reading ends at a string that does not, and at no escape") {
  for (const char* text :
       {"'a", "'a\nb'", "'''a''", "\"", "'\\", "r'\\", "'\\x4'", "'\\u12'",
        "'\\U00110000'", "'\\ud800'", "'\\N{BULLET}'"}) {
    CAPTURE(text);
    const SourceFile source("rules.py", std::string("x = ") + text);
    const auto tokens = python_tokens(source);
    REQUIRE(tokens.size() == 4);
    CHECK(tokens[2].kind == PythonTokenKind::Bad);
    CHECK(tokens[3].kind == PythonTokenKind::End);
  }
}

TEST_CASE("a string is not the operator that it spells") {
  const SourceFile source("rules.py", "'(' (");
  const auto tokens = python_tokens(source);
  CHECK_FALSE(tokens[0].is("("));
  CHECK(tokens[1].is("("));
}

TEST_CASE("any bytes become tokens that lie in order within the text") {
  CHECK(rc::check([] {
    auto text = *rc::gen::container<std::string>(rc::gen::oneOf(
        rc::gen::element('\'', '"', '\\', '\n', 'r', 'f', 'x', 'u', '#', '('),
        rc::gen::arbitrary<char>()));
    const SourceFile source("rules.py", text);
    const auto tokens = python_tokens(source);
    RC_ASSERT(tokens.back().kind == PythonTokenKind::End);
    uint64_t at = 0;
    for (const PythonToken& token : tokens) {
      RC_ASSERT(token.where.begin >= at);
      RC_ASSERT(token.where.end >= token.where.begin);
      RC_ASSERT(token.where.end <= text.size());
      at = token.where.end;
    }
  }));
}

}  // namespace
}  // namespace shardplan
