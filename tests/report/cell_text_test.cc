// SPDX-License-Identifier: Apache-2.0
#include "report/cell_text.h"

#include <limits>

#include <doctest/doctest.h>

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
      {Seconds{0}, "0 s", "0"},
      {Seconds{12.34}, "12.3 s", "12.34"},
      {Seconds{0.0412}, "41.2 ms", "0.0412"},
      {Seconds{0.0009996}, "1.00 ms", "0.0009996"},
      {Seconds{3.2e-6}, "3.20 µs", "3.2e-06"},
      {Seconds{5e-12}, "5.0e-12 s", "5e-12"},
      {Seconds{kNan}, "undefined", "undefined"},
      {Seconds{-1 / 0.0}, "-infinite", "-infinite"},
      {MeanBytes{1 / 0.0}, "infinite", "infinite"},
      {Flag{true}, "yes", "yes"},
      {Flag{false}, "no", "no"},
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
  CHECK(cell_text(Seconds{3.2e-6}, ascii) == "3.20 us");
  CHECK(cell_text(std::monostate{}, ascii) == "-");
  CHECK(cell_text(std::string("×22"), ascii) == "x22");
  CHECK(cell_text(Bar{0.1}, ascii) == "###");
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

}  // namespace shardplan
