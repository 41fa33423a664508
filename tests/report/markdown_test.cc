// SPDX-License-Identifier: Apache-2.0
#include "report/markdown.h"

#include <doctest/doctest.h>

namespace shardplan {

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
}

TEST_CASE("what a message has in backticks becomes code") {
  CHECK(markdown_prose("axis `t_p` cuts `k|v` *") ==
        "axis `t_p` cuts `k|v` \\*");
  CHECK(markdown_prose("no code_here") == "no code\\_here");
  CHECK(markdown_prose("one ` alone_") == "one \\` alone\\_");
  CHECK(markdown_prose("`a``b`") == "`a``b`");
  CHECK(markdown_prose("").empty());
}

}  // namespace shardplan
