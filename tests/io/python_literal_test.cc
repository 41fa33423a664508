// SPDX-License-Identifier: Apache-2.0
#include "io/python_literal.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

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
      {"('a' if x else 'b')", "SP002 rules.py:1:6 a condition chooses this"},
      {"[r for r in rules]", "SP002 rules.py:1:4 a loop makes these values"},
      {"('a' + 'b',)", "SP002 rules.py:1:6 `+` makes this an expression"},
      {"(x[0],)", "SP002 rules.py:1:3 `[` makes this an expression"},
      {"(lambda: 1,)", "SP002 rules.py:1:2 `lambda` makes this an expression"},
      {"(*rules, 'a')", "SP002 rules.py:1:2 another table is put in here"},
      {"P(f'a{b}')", "SP002 rules.py:1:3 this string is computed or of bytes"},
      {"('a' f'b',)", "SP002 rules.py:1:6 this string is computed or of bytes"},
      {"(axis='a',)", "SP002 rules.py:1:6 `=` makes this an expression"},
      {"'/'.join(parts)", "SP002 rules.py:1:9 the parts are not written out"},
      {"'/'.join(('a', x))", "SP002 rules.py:1:16 this part is not a string"},
      {"{'a': 1}", "SP002 rules.py:1:1 `{` begins no literal"},
      {"('a'", "SP002 rules.py:1:5 the table does not end"},
      {"", "SP002 rules.py:1:1 the table does not end"},
      {"('a' 1)", "SP002 rules.py:1:6 `1` makes this an expression"},
      {"('a\n')", "SP002 rules.py:1:2 here is a string that does not end"},
      {"('a'\n'b'\n c)", "SP002 rules.py:3:2 a comma or `)` is missing"},
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
  CHECK(rc::check([] {
    const auto parts = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("'a'", "None", "(", ")", "[", "]", ",",
                                      "P", ".", "=", "*", " if ", "\n", "'"));
    std::string text;
    for (const std::string& part : parts) text += part;
    Diagnostics diags;
    const SourceFile source("rules.py", text);
    const auto tokens = python_tokens(source);
    size_t at = 0;
    const bool good = parse_python_value(tokens, at, diags).has_value();
    RC_ASSERT(good != diags.has_errors());
    RC_ASSERT(at <= tokens.size());
  }));
}

}  // namespace
}  // namespace shardplan
