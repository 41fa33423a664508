// SPDX-License-Identifier: Apache-2.0
#include "report/style.h"

#include <doctest/doctest.h>

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
  CHECK(shown("└─ ├ │ █ – − µ ≥", style) == "+- + | # - - u >=");
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
  CHECK(glyphs(style).block == "#");
  CHECK(glyphs(style).ellipsis == "..");
}

}  // namespace shardplan
