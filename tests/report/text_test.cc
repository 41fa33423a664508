// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "report/json.h"
#include "report/markdown.h"
#include "report/style.h"
#include "tests/support/property.h"

namespace shardplan {

TEST_CASE("colour is written only where it is wanted") {
  Style style;
  CHECK(painted("error", Paint::Error, style) == "error");
  style.colour = true;
  CHECK(painted("error", Paint::Error, style) == "\x1b[1;31merror\x1b[0m");
  CHECK(painted("warning", Paint::Warning, style) ==
        "\x1b[1;33mwarning\x1b[0m");
  CHECK(painted("help", Paint::Help, style) == "\x1b[1;36mhelp\x1b[0m");
  CHECK(painted("title", Paint::Bold, style) == "\x1b[1mtitle\x1b[0m");
  CHECK(painted("|", Paint::Dim, style) == "\x1b[2m|\x1b[0m");
  CHECK(painted("text", Paint::Plain, style) == "text");
  CHECK(painted("", Paint::Error, style).empty());
}

TEST_CASE("our own signs have a form in ASCII, names stay as they are") {
  Style style;
  CHECK(shown("层 ×22 → 1…", style) == "层 ×22 → 1…");
  style.unicode = false;
  CHECK(shown("层 ×22 → 1…", style) == "层 x22 -> 1..");
  CHECK(shown("└─ ├ │ █ – − µ ≥", style) == "+- + | = - - u >=");
}

TEST_CASE("what is shown cannot act on the terminal") {
  CHECK(shown("\x1b]0;x\x07", Style{}) == "\\x1b]0;x\\x07");
}

TEST_CASE("without Unicode, tables are drawn in ASCII") {
  Style style;
  CHECK(glyphs(style).times == "×");
  CHECK(glyphs(style).ellipsis == "…");
  style.unicode = false;
  CHECK(glyphs(style).times == "x");
  CHECK(glyphs(style).rule == "-");
  CHECK(glyphs(style).block == "=");
  CHECK(glyphs(style).ellipsis == "..");
}

TEST_CASE("code is fenced by more backticks than it holds") {
  CHECK(markdown_code("layers/*/w_q", false) == "`layers/*/w_q`");
  CHECK(markdown_code("a`b", false) == "``a`b``");
  CHECK(markdown_code("`a``", false) == "``` `a`` ```");
  CHECK(markdown_code(" a", false) == "`  a `");
  CHECK(markdown_code("", false).empty());
  CHECK(markdown_code("q|k", false) == "`q|k`");
}

TEST_CASE("code in a table cannot end its cell") {
  CHECK(markdown_code("q|k", true) == "`q\\|k`");
  CHECK(markdown_code("q\\d", true) == "`q\\d`");
  // Neither backticks nor an escaped pipe can be written in a span there.
  CHECK(markdown_code("q\\|k", true) == "<code>q&#92;&#124;k</code>");
  CHECK(markdown_code("a`<b>", true) == "<code>a&#96;&#60;b&#62;</code>");
}

TEST_CASE("plain text stays plain") {
  CHECK(markdown_plain("P((fsdp, tp), None)") == "P((fsdp, tp), None)");
  CHECK(markdown_plain("a_b*c|d<e>[f](g)\\`~#@&") ==
        "a\\_b\\*c\\|d\\<e\\>\\[f\\](g)\\\\\\`\\~\\#\\@\\&");
  // Nobody is called so, and nothing has such a number.
  CHECK(markdown_plain("a @ b, # of c, d#e &") ==
        "a \\@ b, \\# of c, d\\#e \\&");
}

TEST_CASE("what a message has in backticks becomes code") {
  CHECK(markdown_prose("axis `t_p` cuts `k|v` *") ==
        "axis `t_p` cuts `k|v` \\*");
  CHECK(markdown_prose("no code_here") == "no code\\_here");
  CHECK(markdown_prose("one ` alone_") == "one \\` alone\\_");
  // Fences side by side would be one.
  CHECK(markdown_prose("`a``b`") == "`a`<!-- -->`b`");
  CHECK(markdown_prose("").empty());
}

namespace {

std::string json_of(const Cell& cell) {
  std::string text;
  append_json(text, cell);
  return text;
}

std::string in_quotes(std::string_view text) {
  std::string out;
  append_printable_json(out, text);
  return out;
}

}  // namespace

TEST_CASE("every kind of cell has one form in JSON") {
  struct Case {
    Cell cell;
    std::string_view json;
  };
  const std::vector<Case> cases = {
      {std::monostate{}, "null"},
      {std::string("w"), "\"w\""},
      {Count{std::numeric_limits<int64_t>::min()}, "-9223372036854775808"},
      {ByteSize{std::numeric_limits<int64_t>::max()}, "9223372036854775807"},
      {MeanBytes{80.5}, "80.5"},
      {Ratio{0.1}, "0.1"},
      {Ratio{-0.0}, "0"},
      {Percent{0.893}, "0.893"},
      {Duration{1e-7}, "1e-07"},
      {Bar{0.25}, "0.25"},
      {Ratio{std::numeric_limits<double>::infinity()}, "null"},
      {Ratio{std::numeric_limits<double>::quiet_NaN()}, "null"},
      {YesNo{true}, "true"},
      {YesNo{false}, "false"},
      {Names{{"a", "b"}}, "[\"a\", \"b\"]"},
      {Names{}, "[]"},
      {Numbers{{1, 2}}, "[1, 2]"},
      {Dims{{2048, 256}}, "[2048, 256]"},
      {Dims{}, "[]"},
      {PartitionSpec{}, "[]"},
      {PartitionSpec{{{}}}, "[null]"},
      {PartitionSpec{{{"tp"}, {}, {"dp", "fsdp"}}},
       "[\"tp\", null, [\"dp\", \"fsdp\"]]"},
      {MeshCell{Mesh({{"tp", 2}, {"dp", 4}})}, "{\"tp\": 2, \"dp\": 4}"},
      {MemoryRange{3, 1, 2.5}, "{\"max\": 3, \"min\": 1, \"mean\": 2.5}"},
      {DurationBracket{0.5, 1, 2.25},
       "{\"lower\": 0.5, \"estimate\": 1, \"upper\": 2.25}"},
      {ByteBracket{1, 2, 3}, "{\"lower\": 1, \"estimate\": 2, \"upper\": 3}"},
  };
  for (const Case& test : cases) {
    CAPTURE(test.json);
    CHECK(json_of(test.cell) == test.json);
  }
}

TEST_CASE("strings are escaped, and harmless on a terminal") {
  CHECK(in_quotes("a\"b\\c") == R"("a\"b\\c")");
  CHECK(in_quotes("\n\r\t\b") == R"("\n\r\t\u0008")");
  CHECK(in_quotes(std::string_view("\0", 1)) == R"("\u0000")");
  CHECK(in_quotes("层×") == "\"层×\"");
  CHECK(in_quotes("\x1b[31m") == R"("\u001b[31m")");
  CHECK(in_quotes("\x7f\xC2\x9B") == R"("\u007f\u009b")");
  CHECK(in_quotes("\xE2\x80\xAE") == R"("\u202e")");
  CHECK(in_quotes("\xF0\x9F\x9A\x80") == "\"\xF0\x9F\x9A\x80\"");
}

TEST_CASE("bytes that are not UTF-8 are replaced") {
  CHECK(in_quotes("a\xFF") == "\"a\xEF\xBF\xBD\"");
  CHECK(in_quotes("\xC3") == "\"\xEF\xBF\xBD\"");
}

TEST_CASE("any text reads back the same, if it is UTF-8") {
  CHECK(holds("append_printable_json", [] {
    const auto bytes = draw_any<std::string>();
    const nlohmann::json parsed = nlohmann::json::parse(in_quotes(bytes));
    ENSURE(is_valid_utf8(in_quotes(bytes)));
    if (is_valid_utf8(bytes)) ENSURE(parsed.get<std::string>() == bytes);
  }));
  CHECK(holds("append_printable_json of code points", [] {
    std::string text;
    for (int i = draw_in(0, 20); i > 0; --i) {
      text += draw_of<std::string>({"a", "\"", "\\", "\n", "\x1b", "é", "层",
                                    "\xF0\x9F\x9A\x80", "\xE2\x80\xAE"});
    }
    ENSURE(nlohmann::json::parse(in_quotes(text)).get<std::string>() == text);
  }));
}

TEST_CASE("any double reads back the same") {
  CHECK(holds("append_json_number", [] {
    const auto number = draw_any<double>();
    std::string text;
    append_json_number(text, number);
    ENSURE(nlohmann::json::parse(text).get<double>() == number);
  }));
  CHECK(holds("append_json_number of any bits", [] {
    const auto bits = draw_any<uint64_t>();
    double number = 0;
    static_assert(sizeof number == sizeof bits);
    std::memcpy(&number, &bits, sizeof bits);
    std::string text;
    append_json_number(text, number);
    const nlohmann::json parsed = nlohmann::json::parse(text);
    if (std::isfinite(number)) {
      ENSURE(parsed.get<double>() == number);
    } else {
      ENSURE(parsed.is_null());
    }
  }));
}

}  // namespace shardplan
