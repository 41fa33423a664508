// SPDX-License-Identifier: Apache-2.0
#include "syntax/yaml.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "syntax/document.h"
#include "tests/io/document_text.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

using testing::document_text;
using testing::problems_text;

TEST_CASE("YAML becomes nodes by the rules of the 1.2 core schema") {
  const std::pair<std::string, std::string> kCases[] = {
      {"", "null"},
      {"# nothing\n", "null"},
      {"a: 1\nb: [x, 'y', \"z\"]\n", "{a: int 1, b: ['x', 'y', 'z']}"},
      {"- a\n- - b\n  - c: d\n", "['a', ['b', {c: 'd'}]]"},
      {"[null, ~, Null, '', \"null\", nul]",
       "[null, null, null, '', 'null', 'nul']"},
      {"a:\nb: ~\n", "{a: null, b: null}"},
      {"[true, False, TRUE, yes, on, off, 'true']",
       "[bool true, bool False, bool TRUE, 'yes', 'on', 'off', 'true']"},
      {"[0, -1, +2, 012, 0x1f, 0o17, 1_000, 1:30, 0x, 0o8]",
       "[int 0, int -1, int +2, int 012, int 0x1f, int 0o17, '1_000', '1:30', "
       "'0x', '0o8']"},
      {"[1., .5, 1e3, 1.5E-3, -.inf, .nan, -.nan, ., 1e, e1, 1.2.3]",
       "[real 1., real .5, real 1e3, real 1.5E-3, real -.inf, real .nan, "
       "'-.nan', '.', '1e', 'e1', '1.2.3']"},
      {"a: |\n  x\n  y\nb: >\n  x\n  y\n", "{a: 'x\ny\n', b: 'x y\n'}"},
      {"a: x\n  y\n", "{a: 'x y'}"},
      {"---\na: 1\n...\n", "{a: int 1}"},
      {"%YAML 1.2\n---\na: 1\n", "{a: int 1}"},
      {"\xEF\xBB\xBF"
       "a: 1\n",
       "{a: int 1}"},
      {"a: 1\r\nb: x\r\n", "{a: int 1, b: 'x'}"},
      {"1: a\ntrue: b\n", "{1: 'a', true: 'b'}"},
      {"a: &x [1, 2]\nb: *x\n", "{a: [int 1, int 2], b: [int 1, int 2]}"},
      {"&k a: *k\n*k : 1\n",
       "SP003 2:1 key `a` is given twice (first given here 1:4)\n"},
      {"&k a: *k\n", "{a: 'a'}"},
      {"[!!str 1, !!int \"2\", !!float 3, !!str null, !!null '', !!bool "
       "'true']",
       "['1', int 2, real 3, 'null', null, bool true]"},
      {"!!map {a: !!seq [1]}", "{a: [int 1]}"},
      {"[! 1]", "['1']"},
      {"[a: 1, b]", "[{a: int 1}, 'b']"},
      {"{a, b: 1}", "{a: null, b: int 1}"},
      {"\"<<\": 1", "{<<: int 1}"},
      {"- [\"a.*\", [fsdp, null]]\n- {pattern: x, spec: []}\n",
       "[['a.*', ['fsdp', null]], {pattern: 'x', spec: []}]"},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    CHECK(document_text(text) == expected);
  }
}

TEST_CASE("YAML that is not what its author meant is refused with its place") {
  const std::pair<std::string, std::string> kCases[] = {
      {"- a\nb: c\n", "2:1 text follows the end of the document"},
      {"a: 1\n---\nb: 2\n", "2:1 text follows the end of the document"},
      {"a: &x [1, *x]\n", "1:11 an alias refers to a value that contains it"},
      {"&x [*x]\n", "1:5 an alias refers to a value that contains it"},
      {"a: *nowhere\n",
       "1:4 malformed YAML: the referenced anchor is not "
       "defined"},
      {"<<: {a: 1}\n", "1:1 merge keys (`<<`) are not supported"},
      {"? [a, b]\n: 1\n", "1:3 a key must be a string"},
      {"- {[a]: 1}", "1:4 a key must be a string"},
      {"- {{a: 1}: 1}", "1:4 a key must be a string"},
      {"~: 1\n", "1:1 a key must be a string"},
      {"a: &x [1]\n*x : 2\n", "2:1 a key must be a string"},
      {"a: \"x\\\"\n", "1:4 a quoted string is not closed"},
      {"- 'x''\n", "1:3 a quoted string is not closed"},
      {"a: !mine 1\n", "1:4 tag `!mine` does not match its value"},
      {"a: !!set {x, y}\n", "1:4 tag `!!set` does not match its value"},
      {"a: !!int x\n", "1:4 tag `!!int` does not match its value"},
      {"a: !!seq {}\n", "1:4 tag `!!seq` does not match its value"},
      {"a: b\xFF\n", "1:5 the text contains bytes that are not UTF-8"},
      {std::string("a\0b", 3), "1:2 the text contains a control character"},
      {"a: \x04\n", "1:4 the text contains a control character"},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    CHECK(problems_text(text) == "SP002 " + expected + "\n");
  }
}

TEST_CASE("malformed YAML is one diagnostic at its place") {
  const std::pair<std::string, std::string> kCases[] = {
      {"a: [1, 2\n", "SP002 2:1 malformed YAML: "},
      {"a: b: c\n", "SP002 1:5 malformed YAML: "},
      {"\ta: 1\n", "SP002 1:"},
      {"a: 'x\\u12'\nb: \"\\ud800\"\n", "SP002 2:"},
      {"a: @b\n", "SP002 1:4 malformed YAML: "},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    const std::string problems = problems_text(text);
    CHECK(problems.substr(0, expected.size()) == expected);
    CHECK(problems.find('\n') == problems.size() - 1);
  }
}

TEST_CASE("YAML nests as deep as JSON, aliases counted in") {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + "a" + std::string(depth, ']');
  };
  CHECK(problems_text(nested(256)).substr(0, 5) == "read:");
  CHECK(problems_text(nested(257)) ==
        "SP002 1:257 values are nested deeper than 256 levels\n");
  const std::string chain = "- &a " + nested(200) + "\n- &b [*a]\n";
  CHECK(problems_text(chain).substr(0, 5) == "read:");
  CHECK(problems_text(chain + "- " + std::string(60, '[') + "*b" +
                      std::string(60, ']') + "\n") ==
        "SP002 3:63 values are nested deeper than 256 levels\n");
}

TEST_CASE("aliases that explode are refused before anything is built") {
  std::string text = "- &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string use = "*a" + std::to_string(i - 1);
    text += "- &a" + std::to_string(i) + " [" + use;
    for (int k = 1; k < 10; ++k) text += ", " + use;
    text += "]\n";
  }
  const std::string problems = problems_text(text);
  CAPTURE(problems);
  CHECK(problems.find("aliases expand to more than 1,000,000 nodes") !=
        std::string::npos);
}

// Spans of all nodes, parents first.
void collect_spans(const Node& node, std::vector<std::string>& all) {
  all.emplace_back(node.span().text());
  for (size_t i = 0; i < node.size(); ++i) {
    if (node.is_map()) all.emplace_back(node.key_span(i).text());
    collect_spans(node.item(i), all);
  }
}

TEST_CASE("spans of YAML nodes cover what was written") {
  const std::pair<std::string, std::vector<std::string>> kCases[] = {
      {"- [\"a\\\"b\", [tp , [fsdp, sp] ] ] # x",
       {"- [\"a\\\"b\", [tp , [fsdp, sp] ] ]",
        "[\"a\\\"b\", [tp , [fsdp, sp] ] ]", "\"a\\\"b\"", "[tp , [fsdp, sp] ]",
        "tp", "[fsdp, sp]", "fsdp", "sp"}},
      {"a: 'it''s'\nb: {c: ~, d: }",
       {"a: 'it''s'\nb: {c: ~, d: }", "a", "'it''s'", "b", "{c: ~, d: }", "c",
        "~", "d", ""}},
      {"a: &x !!str  12\nb: *x\n",
       {"a: &x !!str  12\nb: *x", "a", "12", "b", "12"}},
      {"\xEF\xBB\xBF[a,\n # note ]\n b,\n]\n",
       {"[a,\n # note ]\n b,\n]", "a", "b"}},
      {"[]", {"[]"}},
      {"a: |\n  x\n", {"a: |", "a", "|"}},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    Diagnostics diags;
    const auto document =
        parse_document(std::make_shared<SourceFile>("t", text), diags);
    REQUIRE(document);
    std::vector<std::string> spans;
    collect_spans(document->root(), spans);
    CHECK(spans == expected);
  }
}

TEST_CASE("words that some YAML takes for something else are quoted") {
  for (const char* word : {"tp", "fsdp_2", "_x", "Embed", "nothing", "nan"}) {
    CHECK(yaml_word(word) == word);
  }
  for (const char* word : {"no", "Yes", "n", "ON", "true", "null", "", "2tp",
                           "a-b", "a.b", "a:b", "~", "*x", "a b", "ü"}) {
    CAPTURE(word);
    CHECK(yaml_word(word) == "\"" + std::string(word) + "\"");
  }
}

TEST_CASE("quotes, backslashes and what does not print are escaped") {
  CHECK(yaml_string("a\\d\"") == "\"a\\\\d\\\"\"");
  CHECK(yaml_string("\n\x01") == "\"\\x0a\\x01\"");
  CHECK(yaml_string("\u2028\ufeff") == "\"\\u2028\\ufeff\"");
  CHECK(yaml_string("größe") == "\"größe\"");
}

TEST_CASE("what is written is read as it was, as a string") {
  CHECK(holds("yaml_string", [] {
    std::string text;
    const auto count = draw_in<size_t>(0, 10);
    for (size_t i = 0; i < count; ++i) {
      text += draw_of<std::string>(
          {"a", "\\", "\"", "'", "\n", "\r", "\t", " ", "\x7f", "ü", "\u0085",
           "\u2028", "\U0001F600", ":", "#", "- ", "{", "no", "1"});
    }
    const bool word = draw_bool();
    const auto source = std::make_shared<SourceFile>(
        "y", "[" + (word ? yaml_word(text) : yaml_string(text)) + "]\n");
    Diagnostics diags;
    const auto document = parse_document(source, diags);
    ENSURE(document.has_value());
    const Node item = document->root().item(0);
    ENSURE(item.is_string());
    ENSURE(item.text() == text);
  }));
}

}  // namespace

}  // namespace shardplan
