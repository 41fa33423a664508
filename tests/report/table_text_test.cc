// SPDX-License-Identifier: Apache-2.0
#include "report/table_text.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "base/check.h"
#include "base/text.h"
#include "tests/support/reports.h"

namespace shardplan {
namespace {

std::string printed(const Table& table, const Style& style = {},
                    bool apart = false) {
  std::string text;
  const TextSink sink = [&](std::string_view piece) {
    text += piece;
    return true;
  };
  Output out(sink);
  print_table(table, style, apart, out);
  out.finish();
  return text;
}

Style of_width(int width) {
  Style style;
  style.width = width;
  return style;
}

Table placements() { return sample_report().tables[0]; }

}  // namespace

TEST_CASE("columns are aligned, numbers to the right, totals under a rule") {
  CHECK(printed(placements()) ==
        "parameter                    spec                 per device  rule\n"
        "layers/*/mlp/up_proj/kernel  P(None, (fsdp, tp))    31.3 MiB     1\n"
        "norm                         P()                    4.00 KiB     –\n"
        "                                                    ────────\n"
        "                                                    31.3 MiB\n");
}

TEST_CASE("elastic columns give way, the others do not") {
  CHECK(printed(placements(), of_width(60)) ==
        "parameter              spec                 per device  rule\n"
        "layers…up_proj/kernel  P(None, (fsdp, tp))    31.3 MiB     1\n"
        "norm                   P()                    4.00 KiB     –\n"
        "                                              ────────\n"
        "                                              31.3 MiB\n");
  // Too narrow for all: names keep twenty columns, the rest its whole width.
  CHECK(lines_of(printed(placements(), of_width(20)))[1] ==
        "layers…p_proj/kernel  P(None, (fsdp, tp))    31.3 MiB     1");
}

TEST_CASE("tables have a form in ASCII and in exact numbers") {
  Style style = of_width(60);
  style.unicode = false;
  style.exact = true;
  CHECK(printed(placements(), style) ==
        "parameter              spec                 per device  rule\n"
        "layers..p_proj/kernel  P(None, (fsdp, tp))    32769024     1\n"
        "norm                   P()                        4096     -\n"
        "                                              --------\n"
        "                                              32773120\n");
}

TEST_CASE("a title stands over indented rows, a header only where wanted") {
  CHECK(printed(sample_report().tables[2], {}, true) ==
        "\n"
        "Memory per device\n"
        "  weights       512 B  ███████████████\n"
        "  gradients  1.00 KiB  ██████████████████████████████\n");
}

TEST_CASE("a column of nothing takes no room") {
  Table table{"t",
              "",
              {{"a", "a"}, {"b", ""}, {"c", "c"}},
              rows_of({{std::string("x"), std::string(), Count{1}}})};
  CHECK(printed(table) == "a  c\nx  1\n");
}

TEST_CASE("a table without rows is not printed") {
  Table table = placements();
  table.rows = rows_of({});
  CHECK(printed(table, {}, true).empty());
}

TEST_CASE("colour is around texts, not around blanks") {
  Style style;
  style.colour = true;
  const Table table{"t",
                    "Title",
                    {{"a", "a"}, {"b", "b"}},
                    rows_of({{std::string("xyz"), Count{1}}})};
  CHECK(printed(table, style) ==
        "\x1b[1mTitle\x1b[0m\n"
        "  \x1b[1ma\x1b[0m    \x1b[1mb\x1b[0m\n"
        "  xyz  1\n");
}

TEST_CASE("a row that does not fit its table is a bug") {
  Table table = placements();
  table.rows = rows_of({{Count{1}}});
  CHECK_THROWS_AS(printed(table), InternalError);
}

TEST_CASE("elastic tables fit the width, and no line ends in a blank") {
  CHECK(rc::check("print_table", [] {
    const auto text = rc::gen::container<std::string>(
        rc::gen::element('a', '/', ' ', '\n', '\x1b'));
    std::vector<Row> rows;
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
      rows.push_back({*text, Count{*rc::gen::inRange(0, 9)}, *text});
    }
    const int width = *rc::gen::inRange(50, 90);
    const Table table{"t",
                      "",
                      {{"a", "first", Align::Left, true},
                       {"b", "b", Align::Right},
                       {"c", "third", Align::Right, true}},
                      rows_of(rows)};
    for (const std::string& line : lines_of(printed(table, of_width(width)))) {
      RC_ASSERT(display_width(line) <= width);
      RC_ASSERT(printable(line) == line);
      RC_ASSERT(line.empty() || line.back() != ' ');
    }
  }));
}

}  // namespace shardplan
