// SPDX-License-Identifier: Apache-2.0
#include "io/python_text.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "io/python_literal.h"
#include "io/python_tokens.h"
#include "tests/support/builders.h"

namespace shardplan {
namespace {

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
  CHECK(rc::check("python_string", [] {
    std::string text;
    const auto count = *rc::gen::inRange<size_t>(0, 12);
    for (size_t i = 0; i < count; ++i) {
      text += *rc::gen::element<std::string>(
          "a", "\\", "\"", "'", "\n", "\r", "\t", std::string(1, '\0'), "\x7f",
          "ü", "\u2028", "\U0001F600", "N{DASH}", "x41", "u0041", "{", "#");
    }
    const SourceFile source("p", python_string(text));
    const auto tokens = python_tokens(source);
    Diagnostics diags;
    size_t at = 0;
    const auto value = parse_python_value(tokens, at, diags);
    RC_ASSERT(value.has_value());
    RC_ASSERT(value->kind == PythonKind::String);
    RC_ASSERT(value->text == text);
    RC_ASSERT(tokens[at].kind == PythonTokenKind::End);
  }));
}

}  // namespace
}  // namespace shardplan
