// SPDX-License-Identifier: Apache-2.0
#include "report/snippet.h"

#include <string>

#include <doctest/doctest.h>

#include "base/text.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

// What GitHub's runner does with a line, as its source has it.
bool is_command(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r\v\f");
  if (begin == std::string_view::npos) return false;
  if (line.substr(begin).starts_with("::")) return true;
  const size_t hash = line.find("##[");
  return hash != std::string_view::npos ||
         line.find("##vso[") != std::string_view::npos;
}

bool has_command(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (is_command(text.substr(0, end))) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

TEST_CASE("lines that CI runners take for commands are escaped") {
  const struct {
    const char* text;
    const char* shown;
  } rows[] = {
      {"::error::x", "\\x3a:error::x"},
      {"a\n::error::x\n", "a\n\\x3a:error::x\n"},
      {"  \t::add-mask::x", "  \t\\x3a:add-mask::x"},
      {"\xC2\xA0::x", "\xC2\xA0\\x3a:x"},
      {"\xE3\x80\x80::x", "\xE3\x80\x80\\x3a:x"},
      {"\x1b[1m::x\x1b[0m", "\x1b[1m\\x3a:x\x1b[0m"},
      {":::", "\\x3a::"},
      {"a ::error::x", "a ::error::x"},
      {"std::x", "std::x"},
      {":x:", ":x:"},
      {"a ##[error]x", "a #\\x23[error]x"},
      {"###[x] ##vso[y] ##teamcity[z]",
       "##\\x23[x] #\\x23vso[y] #\\x23teamcity[z]"},
      {"::##[x]", "\\x3a:#\\x23[x]"},
      {"# [x] #[x] ## [x] ##1[x]", "# [x] #[x] ## [x] ##1[x]"},
      {"", ""},
      {"\n\n", "\n\n"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(without_commands(row.text) == row.shown);
  }
}

TEST_CASE("no text leaves a command, however it is cut into pieces") {
  CHECK(holds([] {
    const auto text = draw_text(":#[ \n1\t");
    const auto size = draw_in<size_t>(1, 5);
    std::string out;
    const TextSink sink = [&](std::string_view piece) {
      out += piece;
      return true;
    };
    LineGuard guard(sink);
    for (size_t at = 0; at < text.size(); at += size) {
      ENSURE(guard.write(std::string_view(text).substr(at, size)));
    }
    ENSURE(guard.finish());
    ENSURE(out == without_commands(text));
    ENSURE(!has_command(out));
    // The mutation: as it is, unless there was none.
    ENSURE((out == text) == !has_command(text));
  }));
}

TEST_CASE("a refusing sink is noticed, and gets nothing more") {
  int calls = 0;
  const TextSink sink = [&](std::string_view) {
    ++calls;
    return false;
  };
  LineGuard guard(sink);
  CHECK(guard.write("no end yet"));
  CHECK_FALSE(guard.write("\n"));
  CHECK_FALSE(guard.write("more\n"));
  CHECK_FALSE(guard.finish());
  CHECK(calls == 1);
}

using Lines = std::vector<std::string>;

Lines draw(std::string_view line, const std::vector<Mark>& marks,
           int width = 80, const Style& style = {}) {
  return draw_snippet(line, marks, width, Paint::Error, style);
}

}  // namespace

TEST_CASE("a mark is underlined and its text follows") {
  CHECK(draw("fsdp=4,tp", {{7, 9, "expected `tp=N`", true}}) ==
        Lines{"fsdp=4,tp",  //
              "       ^^ expected `tp=N`"});
  CHECK(draw("fsdp=4,tp", {{7, 9, "", false}}) == Lines{"fsdp=4,tp",  //
                                                        "       --"});
}

TEST_CASE("an empty mark is one caret, also behind the last character") {
  CHECK(draw("ab", {{1, 1, "here", true}}) == Lines{"ab", " ^ here"});
  CHECK(draw("ab", {{2, 2, "", true}}) == Lines{"ab", "  ^"});
  CHECK(draw("ab", {{9, 12, "", true}}) == Lines{"ab", "  ^"});
  CHECK(draw("", {{0, 0, "", true}}) == Lines{"", "^"});
}

TEST_CASE("texts that would collide hang below, right to left") {
  CHECK(draw("[tp, fsdp, sp]", {{1, 3, "first", false},
                                {5, 9, "second", true},
                                {11, 13, "third", false}}) ==
        Lines{"[tp, fsdp, sp]",       //
              " --  ^^^^  -- third",  //
              " |   |",               //
              " |   second",          //
              " first"});
}

TEST_CASE("marks that overlap keep their texts and the primary its carets") {
  CHECK(draw("[tp, fsdp]", {{0, 10, "all of it", false},
                            {5, 9, "this", true}}) == Lines{"[tp, fsdp]",  //
                                                            "-----^^^^-",  //
                                                            "|    |",      //
                                                            "|    this",   //
                                                            "all of it"});
  CHECK(draw("tp", {{0, 2, "a", true}, {0, 2, "b", false}}) == Lines{"tp",    //
                                                                     "^^ b",  //
                                                                     "|",     //
                                                                     "a"});
}

TEST_CASE("wide characters, marks and tabs keep the carets in place") {
  CHECK(draw("\t层: tp", {{6, 8, "", true}}) == Lines{"    层: tp",  //
                                                      "        ^^"});
  CHECK(draw("层层", {{3, 6, "x", true}}) == Lines{"层层", "  ^^ x"});
  CHECK(draw("e\xCC\x81 tp", {{4, 6, "", true}}) ==
        Lines{"e\xCC\x81 tp", "  ^^"});
}

TEST_CASE("what could act on the terminal is escaped, and counted as shown") {
  CHECK(draw("\x1b[m tp", {{4, 6, "", true}}) ==
        Lines{"\\x1b[m tp", "       ^^"});
  CHECK(draw("\xFF tp", {{2, 4, "x\x07", true}}) ==
        Lines{"\\xff tp", "     ^^ x\\x07"});
}

TEST_CASE("a long line is cut to a window around its mark") {
  const std::string line = std::string(100, 'a') + "tp" + std::string(100, 'b');
  CHECK(draw(line, {{100, 102, "here", true}}, 22) ==
        Lines{"…aaaaaaaaatpbbbbbbbbb…",  //
              "          ^^ here"});
  CHECK(draw(line, {{0, 2, "", true}}, 10) == Lines{"aaaaaaaaa…", "^^"});
  CHECK(draw(line, {{200, 202, "", true}}, 10) ==
        Lines{"…bbbbbbbbb", "        ^^"});
  Style ascii;
  ascii.unicode = false;
  CHECK(draw(line, {{100, 102, "", true}}, 12, ascii) ==
        Lines{"..aaatpbbb..", "     ^^"});
}

TEST_CASE("a mark that is longer than the window is cut with it") {
  const std::string line = std::string(50, 'a') + std::string(100, 'x');
  CHECK(draw(line, {{50, 150, "", true}}, 22) ==
        Lines{"…aaaaaxxxxxxxxxxxxxxx…",  //
              "      ^^^^^^^^^^^^^^^"});
}

TEST_CASE("blanks at the end of the source are not printed") {
  CHECK(draw("tp   ", {{0, 2, "", true}}) == Lines{"tp", "^^"});
  CHECK(draw_line("  x: 1   ", 80, Style{}) == "  x: 1");
  CHECK(draw_line(std::string(30, 'x'), 10, Style{}) == "xxxxxxxxx…");
}

TEST_CASE("whether a window holds a range counts columns") {
  CHECK(fits_window("层层ab", 0, 6, 4));
  CHECK_FALSE(fits_window("层层ab", 0, 7, 4));
  CHECK(fits_window("ab", 1, 99, 1));
}

TEST_CASE("colour marks carets and their texts") {
  Style style;
  style.colour = true;
  CHECK(draw("ab", {{0, 1, "x", true}, {1, 2, "y", false}}, 80, style) ==
        Lines{"ab", "\x1b[1;31m^\x1b[0m\x1b[1;36m-\x1b[0m \x1b[1;36my\x1b[0m",
              "\x1b[1;31m|\x1b[0m", "\x1b[1;31mx\x1b[0m"});
}

TEST_CASE("a line of 100 MB costs no more than a short one") {
  const std::string line(100'000'000, 'a');
  const Lines lines = draw(line, {{50'000'000, 50'000'003, "", true}}, 40);
  CHECK(display_width(lines[0]) == 40);
  CHECK(lines[1].ends_with("^^^"));
}

TEST_CASE("any bytes give printable lines that fit, with a caret for a mark") {
  CHECK(holds("draw_snippet", [] {
    std::string line;
    for (int i = draw_in(0, 60); i > 0; --i) {
      line += draw_of<std::string>(
          {"a", "层", "\t", "\x1b", "\xFF", "\xC3", "e\xCC\x81", " "});
    }
    const auto size = static_cast<int>(line.size());
    const int begin = draw_in(0, size + 2);
    const int end = draw_in(begin, size + 3);
    const int width = draw_in(20, 60);
    const Lines lines =
        draw(line,
             {{static_cast<size_t>(begin), static_cast<size_t>(end), "", true}},
             width);
    ENSURE(lines.size() == 2U);
    ENSURE(display_width(lines[0]) <= width);
    ENSURE(printable(lines[0]) == lines[0]);
    ENSURE(lines[1].find('^') != std::string::npos);
    ENSURE(display_width(lines[1]) <= width + 1);
  }));
}

}  // namespace shardplan
