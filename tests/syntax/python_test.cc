// SPDX-License-Identifier: Apache-2.0
#include "syntax/python.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/property.h"

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
std::string python_value_of(const std::string& literal) {
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
    CHECK(python_value_of(literal) ==
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

TEST_CASE("what is computed or of bytes is not a plain text") {
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

TEST_CASE("a string that names a character counts as computed") {
  const SourceFile source("rules.py", "'\\N{BULLET}' b");
  const auto tokens = python_tokens(source);
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[0].kind == PythonTokenKind::Formatted);
  CHECK(tokens[1].is("b"));
}

TEST_CASE("reading ends at a string that does not, and at no escape") {
  for (const char* text :
       {"'a", "'a\nb'", "'''a''", "\"", "'\\", "r'\\", "'\\x4'", "'\\u12'",
        "'\\U00110000'", "'\\ud800'", "'\\N'", "'\\N{BULLET'"}) {
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
  CHECK(holds([] {
    std::string text;
    for (const char c : draw_list([] {
           return draw_bool() ? draw_of("'\"\\\nrfxu#(") : draw_any<char>();
         })) {
      text += c;
    }
    const SourceFile source("rules.py", text);
    const auto tokens = python_tokens(source);
    ENSURE(tokens.back().kind == PythonTokenKind::End);
    uint64_t at = 0;
    for (const PythonToken& token : tokens) {
      ENSURE(token.where.begin >= at);
      ENSURE(token.where.end >= token.where.begin);
      ENSURE(token.where.end <= text.size());
      at = token.where.end;
    }
  }));
}

TEST_CASE("strings are raw where that saves backslashes, else escaped") {
  const struct {
    const char* text;
    const char* expected;
  } rows[] = {
      {"embed", "\"embed\""},
      {"", "\"\""},
      {"a\\d+$", "r\"a\\d+$\""},
      {"a\"\\d", "\"a\\\"\\\\d\""},
      {"ends\\", "\"ends\\\\\""},
      {"ends\\\\", "r\"ends\\\\\""},
      {"tab\there\n", "\"tab\\there\\n\""},
      {"\x01\x7f", "\"\\x01\\x7f\""},
      {"größe", "\"größe\""},
      {"\u202e", "\"\\u202e\""},
      {"\\\u202e", "\"\\\\\\u202e\""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(python_string(row.text) == row.expected);
  }
}

TEST_CASE("specs are calls, with a comma in a tuple of one") {
  using testing::spec;
  CHECK(python_spec(spec("")) == "PartitionSpec()");
  CHECK(python_spec(spec("tp, None, (fsdp, sp)")) ==
        "PartitionSpec(\"tp\", None, (\"fsdp\", \"sp\"))");
  CHECK(python_names({"a"}) == "(\"a\",)");
  CHECK(python_names({}) == "()");
}

TEST_CASE("what is written is read as it was") {
  CHECK(holds("python_string", [] {
    std::string text;
    const auto count = draw_in<size_t>(0, 12);
    for (size_t i = 0; i < count; ++i) {
      text += draw_of<std::string>(
          {"a", "\\", "\"", "'", "\n", "\r", "\t", std::string(1, '\0'), "\x7f",
           "ü", "\u2028", "\U0001F600", "N{DASH}", "x41", "u0041", "{", "#"});
    }
    const SourceFile source("p", python_string(text));
    const auto tokens = python_tokens(source);
    Diagnostics diags;
    size_t at = 0;
    const auto value = parse_python_value(tokens, at, diags);
    ENSURE(value.has_value());
    ENSURE(value->kind == PythonKind::String);
    ENSURE(value->text == text);
    ENSURE(tokens[at].kind == PythonTokenKind::End);
  }));
}

// `P('a', None)` with every tuple in round and every list in square brackets.
std::string shown(const PythonValue& value) {
  std::string items;
  for (const PythonValue& item : value.items) {
    items += (items.empty() ? "" : ", ") + shown(item);
  }
  switch (value.kind) {
    case PythonKind::None:
      return "None";
    case PythonKind::String:
      return "'" + value.text + "'";
    case PythonKind::Number:
    case PythonKind::Name:
      return value.text;
    case PythonKind::Tuple:
      return "(" + items + ")";
    case PythonKind::List:
      return "[" + items + "]";
    case PythonKind::Choice:
      return "choice(" + items + ")";
    case PythonKind::Starred:
      return "*" + items;
    case PythonKind::Sum:
      return "sum(" + items + ")";
    case PythonKind::Call:
      return value.text + "(" + items + ")";
  }
  return "?";
}

std::string read(const std::string& text) {
  Diagnostics diags;
  const SourceFile source("rules.py", text);
  const auto tokens = python_tokens(source);
  size_t at = 0;
  const auto value = parse_python_value(tokens, at, diags);
  CHECK(value.has_value() != diags.has_errors());
  return value ? shown(*value) : testing::messages(diags);
}

TEST_CASE("strings, None, tuples, lists, names and calls are read") {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"None", "None"},
      {"'a' \"b\"\n r'\\c'", "'ab\\c'"},
      {"()", "()"},
      {"('a',)", "('a')"},
      {"('a', None, [1, 'b'],)", "('a', None, [1, 'b'])"},
      {"[]", "[]"},
      {"P()", "P()"},
      {"jax.sharding.PartitionSpec('a', ('b', 'c'), None)",
       "jax.sharding.PartitionSpec('a', ('b', 'c'), None)"},
      {"P.UNCONSTRAINED", "P.UNCONSTRAINED"},
      {"(('w', P('a')),\n # end\n ('v', P()))", "(('w', P('a')), ('v', P()))"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    CHECK(read(row.first) == row.second);
  }
}

TEST_CASE("a value in brackets without a comma is the value") {
  CHECK(read("('a')") == "'a'");
  CHECK(read("(('a'))") == "'a'");
  CHECK(read("(P('a'))") == "P('a')");
  CHECK(read("['a']") == "['a']");
  CHECK(read("((('a',)))") == "('a')");
}

TEST_CASE("joined and escaped strings are strings") {
  CHECK(read("'/'.join(('a', 'b'))") == "'a/b'");
  CHECK(read("''.join(['a', 'b' 'c'],)") == "'abc'");
  CHECK(read("'x'.join(())") == "''");
  CHECK(read("(re.escape('a.b[c]'), 'd')") == "('a\\.b\\[c\\]', 'd')");
}

TEST_CASE("an argument by name keeps its name") {
  Diagnostics diags;
  const SourceFile source("rules.py", "f('a', axis='b')");
  const auto tokens = python_tokens(source);
  size_t at = 0;
  const auto value = parse_python_value(tokens, at, diags);
  REQUIRE(value.has_value());
  CHECK(value->items[0].keyword.empty());
  CHECK(value->items[1].keyword == "axis");
}

TEST_CASE("what follows a value is left to the caller") {
  Diagnostics diags;
  const SourceFile source("rules.py", "x = ('a', 'b'); y = 1");
  const auto tokens = python_tokens(source);
  size_t at = 2;
  const auto value = parse_python_value(tokens, at, diags);
  REQUIRE(value.has_value());
  CHECK(value->where.text() == "('a', 'b')");
  CHECK(tokens[at].is(";"));
}

TEST_CASE("what would have to be evaluated is refused at its place") {
  const std::vector<std::pair<const char*, const char*>> rows = {
      {"('a' if x else 'b')", "SP002 rules.py:1:6 this value is conditional"},
      {"[r for r in rules]",
       "SP002 rules.py:1:4 a loop generates these values"},
      {"('a' + 'b',)", "SP002 rules.py:1:6 unsupported expression at `+`"},
      {"(x[0],)", "SP002 rules.py:1:3 unsupported expression at `[`"},
      {"(lambda: 1,)", "SP002 rules.py:1:2 `lambda` expressions are not"},
      {"(*rules, 'a')", "SP002 rules.py:1:2 another table is unpacked here"},
      {"P(f'a{b}')",
       "SP002 rules.py:1:3 f-strings and bytes strings are not supported"},
      {"('a' f'b',)",
       "SP002 rules.py:1:6 f-strings and bytes strings are not supported"},
      {"(axis='a',)", "SP002 rules.py:1:6 unsupported expression at `=`"},
      {"'/'.join(parts)", "SP002 rules.py:1:9 the parts are not literals"},
      {"'/'.join(('a', x))", "SP002 rules.py:1:16 this part is not a string"},
      {"{'a': 1}", "SP002 rules.py:1:1 `{` does not start a literal"},
      {"('a'", "SP002 rules.py:1:5 the table is not closed"},
      {"", "SP002 rules.py:1:1 the table is not closed"},
      {"('a' 1)", "SP002 rules.py:1:6 unsupported expression at `1`"},
      {"('a\n')", "SP002 rules.py:1:2 this is an unterminated string"},
      {"('a'\n'b'\n c)", "SP002 rules.py:3:2 expected a comma or `)`"},
  };
  for (const auto& row : rows) {
    const std::string said = read(row.first);
    CAPTURE(said);
    CHECK(said.starts_with(row.second));
  }
}

TEST_CASE("nesting has a limit, and hostile text costs no more than its size") {
  CHECK(read(std::string(60, '(') + "'a'" + std::string(60, ')')) == "'a'");
  for (const char* open : {"(", "[", "P(", "''.join("}) {
    std::string deep;
    for (int i = 0; i < 20000; ++i) deep += open;
    CHECK(read(deep).find("nested deeper than 64 levels") != std::string::npos);
  }
}

TEST_CASE("any text is read or refused") {
  CHECK(holds([] {
    const auto parts = draw_list([] {
      return draw_of<std::string>({"'a'", "None", "(", ")", "[", "]", ",", "P",
                                   ".", "=", "*", " if ", "\n", "'"});
    });
    std::string text;
    for (const std::string& part : parts) text += part;
    Diagnostics diags;
    const SourceFile source("rules.py", text);
    const auto tokens = python_tokens(source);
    size_t at = 0;
    const bool good = parse_python_value(tokens, at, diags).has_value();
    ENSURE(good != diags.has_errors());
    ENSURE(at <= tokens.size());
  }));
}

// "name{key:value ..}" with the tokens of values, `!` where it stopped.
std::string dicts_text(const std::string& text) {
  const SourceFile source("t", text);
  const auto tokens = python_tokens(source);
  std::string all;
  for (const PythonDict& dict : python_dicts(tokens)) {
    all += dict.name + "{";
    for (const PythonEntry& entry : dict.entries) {
      all += entry.key + ":";
      for (size_t i = entry.begin; i < entry.end; ++i) all += tokens[i].text;
      all += " ";
    }
    all += dict.problem ? "!}" : "}";
  }
  return all;
}

TEST_CASE("dictionaries are found by their looks, with what they are called") {
  CHECK(dicts_text("class A:\n  plan: dict[str, str] = {\n"
                   "    'a' 'b': \"c\",  # why\n    \"d\": f(1, [2])}\n"
                   "  _x = {}\nreturn {\"k\": {\"n\": 1}}\n") ==
        "plan{ab:c d:f(1,[2]) }_x{}{k:{n:1} }");
  CHECK(dicts_text("a = {1, 2}\nb = {x: 1}\n") == "");
}

TEST_CASE("an entry that has no literal key is passed over, and noted") {
  CHECK(dicts_text("p = {\"a\": 1, **other, \"b\": 2}") == "p{a:1 b:2 !}");
  CHECK(dicts_text("p = {\"a\": 1, f\"x{i}\": 2}") == "p{a:1 !}");
  CHECK(dicts_text("p = {\"a\": 1") == "p{a:1 !}");
  CHECK(dicts_text("p = {\"a\": 1)]") == "p{a:1 !}");
  CHECK(dicts_text("p = {\"a\":") == "p{a: !}");
  CHECK(dicts_text("{") == "");
}

}  // namespace

}  // namespace shardplan
