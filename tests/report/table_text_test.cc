// SPDX-License-Identifier: Apache-2.0
#include "report/table_text.h"

#include <limits>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "base/text.h"
#include "tests/support/property.h"
#include "tests/support/reports.h"

namespace shardplan {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  Cell cell;
  std::string_view text;
  std::string_view exact;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {std::monostate{}, "–", "–"},
      {std::string("层/w"), "层/w", "层/w"},
      {std::string("a\nb"), "a\\nb", "a\\nb"},
      {Count{1100052480}, "1,100,052,480", "1100052480"},
      {ByteSize{32769024}, "31.3 MiB", "32769024"},
      {MeanBytes{4096.5}, "4.00 KiB", "4096.5"},
      {Ratio{0.8934}, "0.893", "0.8934"},
      {Ratio{1}, "1.000", "1"},
      {Ratio{0}, "0.000", "0"},
      {Ratio{0.000123}, "1.2e-04", "0.000123"},
      {Ratio{kNan}, "undefined", "undefined"},
      {Percent{0.893}, "89.3 %", "0.893"},
      {Percent{0}, "0.0 %", "0"},
      {Percent{0.0001}, "<0.1 %", "1e-04"},
      {Percent{0.99999}, ">99.9 %", "0.99999"},
      {Percent{1}, "100.0 %", "1"},
      {Percent{-0.106}, "-10.6 %", "-0.106"},
      {Percent{kNan}, "undefined", "undefined"},
      {Duration{0}, "0 s", "0"},
      {Duration{12.34}, "12.3 s", "12.34"},
      {Duration{0.0412}, "41.2 ms", "0.0412"},
      {Duration{0.0009996}, "1.00 ms", "0.0009996"},
      {Duration{3.2e-6}, "3.20 µs", "3.2e-06"},
      {Duration{5e-12}, "5.0e-12 s", "5e-12"},
      {Duration{kNan}, "undefined", "undefined"},
      {Duration{-1 / 0.0}, "-infinite", "-infinite"},
      {MeanBytes{1 / 0.0}, "infinite", "infinite"},
      {YesNo{true}, "yes", "yes"},
      {YesNo{false}, "no", "no"},
      {Names{{"tp", "x\x1b"}}, "tp, x\\x1b", "tp, x\\x1b"},
      {Names{}, "", ""},
      {Numbers{{1, 2, 1000}}, "1, 2, 1000", "1, 2, 1000"},
      {Numbers{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, "1, 2, 3, 4, 5, 6, 7, 8, …",
       "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"},
      {Dims{{2048, 256}}, "2048 × 256", "2048 × 256"},
      {Dims{{}}, "scalar", "scalar"},
      {PartitionSpec{{{}, {"fsdp", "tp"}}}, "P(None, (fsdp, tp))",
       "P(None, (fsdp, tp))"},
      {MeshCell{Mesh({{"fsdp", 4}, {"tp", 2}})}, "fsdp=4,tp=2", "fsdp=4,tp=2"},
      {MemoryRange{1024, 1024, 1024}, "1.00 KiB", "1024"},
      {DurationBracket{0.5, 1, 2}, "500 ms to 2.00 s, estimate 1.00 s",
       "0.5 to 2, estimate 1"},
      {ByteBracket{512, 1024, 2048}, "512 B to 2.00 KiB, estimate 1.00 KiB",
       "512 to 2048, estimate 1024"},
      {MemoryRange{1024, 512, 768.5}, "max 1.00 KiB, min 512 B, mean 768 B",
       "max 1024, min 512, mean 768.5"},
  };
  return kCases;
}

}  // namespace

TEST_CASE("a cell is shown as people read it, or exactly") {
  Style exact;
  exact.exact = true;
  for (const Case& test : cases()) {
    CAPTURE(test.text);
    CHECK(cell_text(test.cell, Style{}) == test.text);
    CHECK(cell_text(test.cell, exact) == test.exact);
  }
}

TEST_CASE("cells have a form in ASCII") {
  Style ascii;
  ascii.unicode = false;
  CHECK(cell_text(Dims{{2048, 256}}, ascii) == "2048 x 256");
  CHECK(cell_text(Duration{3.2e-6}, ascii) == "3.20 us");
  CHECK(cell_text(std::monostate{}, ascii) == "-");
  CHECK(cell_text(std::string("×22"), ascii) == "x22");
  CHECK(cell_text(Bar{0.1}, ascii) == "===");
}

TEST_CASE("a bar is as long as its share, and seen while there is any") {
  Style narrow;
  narrow.width = 60;
  const auto length = [](double fraction, const Style& style) {
    return cell_text(Bar{fraction}, style).size() / std::string("█").size();
  };
  CHECK(length(1, Style{}) == 30);
  CHECK(length(0.5, Style{}) == 15);
  CHECK(length(0.0001, Style{}) == 1);
  CHECK(length(7, Style{}) == 30);
  CHECK(length(1, narrow) == 10);
  CHECK(length(0, Style{}) == 0);
  CHECK(length(-1, Style{}) == 0);
  CHECK(length(kNan, Style{}) == 0);
}

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

Style text_of_width(int width) {
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
  CHECK(printed(placements(), text_of_width(60)) ==
        "parameter              spec                 per device  rule\n"
        "layers…up_proj/kernel  P(None, (fsdp, tp))    31.3 MiB     1\n"
        "norm                   P()                    4.00 KiB     –\n"
        "                                              ────────\n"
        "                                              31.3 MiB\n");
  // Too narrow for all: names keep twenty columns, the rest its whole width.
  CHECK(lines_of(printed(placements(), text_of_width(20)))[1] ==
        "layers…p_proj/kernel  P(None, (fsdp, tp))    31.3 MiB     1");
}

TEST_CASE("words wrap where a table is too wide, and none is cut") {
  Table table;
  table.columns = {
      {"name", "name"}, {"what", "what"}, {"n", "n", Align::Right}};
  table.rows = rows_of(
      {{std::string("a"), std::string("one two three four five six"), Count{7}},
       {std::string("b"), std::string("unbreakablewordoftwentyfive"),
        Count{8}}});
  CHECK(printed(table, text_of_width(36)) ==
        "name  what                         n\n"
        "a     one two three four five six  7\n"
        "b     unbreakablewordoftwentyfive  8\n");
  table.rows = rows_of(
      {{std::string("a"), std::string("one two three four five six"), Count{7}},
       {std::string("b"), std::string("short"), Count{8}}});
  CHECK(printed(table, text_of_width(26)) ==
        "name  what               n\n"
        "a     one two three      7\n"
        "      four five six\n"
        "b     short              8\n");
}

TEST_CASE("tables have a form in ASCII and in exact numbers") {
  Style style = text_of_width(60);
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

TEST_CASE("a column that gives way stands below where a row is too wide") {
  Table table{"t",
              "",
              {left("mesh"), left("breaks_at", "breaks at")},
              rows_of({{std::string("tp=1"), std::string("batch 25")},
                       {std::string("tp=2"), std::string()}})};
  table.columns[1].below_if_wide = true;
  CHECK(printed(table, text_of_width(40)) ==
        "mesh  breaks at\ntp=1  batch 25\ntp=2\n");
  CHECK(printed(table, text_of_width(12)) ==
        "mesh\ntp=1\n     breaks at batch 25\ntp=2\n");
}

TEST_CASE("a terminal shows in colours what a cell means") {
  Table table{"t",
              "",
              {left("fits")},
              rows_of({{std::string("yes")}, {std::string("no")}})};
  table.columns[0].tone = [](std::string_view text) {
    return text == "yes" ? Tone::Good : Tone::Bad;
  };
  Style style;
  style.colour = true;
  CHECK(printed(table, style) ==
        "\x1b[1mfits\x1b[0m\n\x1b[1;32myes\x1b[0m\n\x1b[1;31mno\x1b[0m\n");
  CHECK(printed(table) == "fits\nyes\nno\n");
}

TEST_CASE("elastic tables fit the width, and no line ends in a blank") {
  CHECK(holds("print_table", [] {
    const auto text = [] { return draw_text("a/ \n\x1b"); };
    std::vector<Row> rows;
    for (int i = draw_in(1, 6); i > 0; --i) {
      rows.push_back({text(), Count{draw_in(0, 9)}, text()});
    }
    const int width = draw_in(50, 90);
    const Table table{"t",
                      "",
                      {{"a", "first", Align::Left, true},
                       {"b", "b", Align::Right},
                       {"c", "third", Align::Right, true}},
                      rows_of(rows)};
    for (const std::string& line :
         lines_of(printed(table, text_of_width(width)))) {
      ENSURE(display_width(line) <= width);
      ENSURE(printable(line) == line);
      ENSURE(line.empty() || line.back() != ' ');
    }
  }));
}

}  // namespace shardplan
