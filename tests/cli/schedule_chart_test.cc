// SPDX-License-Identifier: Apache-2.0
#include "cli/schedule_chart.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/text.h"
#include "comm/collective.h"

namespace shardplan::cli {
namespace {

using Lines = std::vector<std::string>;

Style style_of(int width, bool unicode = true) {
  Style style;
  style.width = width;
  style.unicode = unicode;
  return style;
}

Schedule schedule_of(const char* algorithm, CollectiveKind kind, int ranks) {
  return find_algorithm(algorithm)->schedule(kind, {ranks, 1});
}

TEST_CASE("a row per step says who sends which chunks to whom") {
  CHECK(draw_schedule(schedule_of("ring", CollectiveKind::AllReduce, 2),
                      style_of(80), false) == Lines{"step  rank 0  rank 1",  //
                                                    "   1  1 → +1  0 → +0",  //
                                                    "   2  0 → 1   1 → 0"});
  CHECK(draw_schedule(schedule_of("ring", CollectiveKind::Broadcast, 2),
                      style_of(80, false),
                      false) == Lines{"step  rank 0  rank 1",  //
                                      "   1  0 -> 1",          //
                                      "   2  1 -> 1"});
}

TEST_CASE("chunks of one way and ways of one chunk are one line") {
  const Schedule schedule{4,
                          6,
                          {{{0, 1, 0, 3},
                            {0, 1, 5},
                            {0, 2, 4, 1, true},
                            {0, 3, 4, 1, true},
                            {1, 0, 3}}}};
  const Lines lines = draw_schedule(schedule, style_of(80), false);
  CHECK(lines == Lines{"step  rank 0     rank 1  rank 2  rank 3",
                       "   1  0-2,5 → 1  3 → 0", "      4 → +2,3"});
}

TEST_CASE("what does not fit is left out, or drawn below") {
  const Schedule schedule = schedule_of("ring", CollectiveKind::AllGather, 30);
  const Lines cut = draw_schedule(schedule, style_of(60), false);
  REQUIRE(cut.size() == 1 + 22 + 1 + 1 + 1);
  for (const std::string& line : cut) CHECK(display_width(line) <= 60);
  CHECK(cut[cut.size() - 3] == "  ..");
  CHECK(cut[cut.size() - 2].starts_with("  29  2 → 1"));
  CHECK(cut.back() == "23 ranks and 6 steps not shown (--expand)");
  const Lines whole = draw_schedule(schedule, style_of(60), true);
  CHECK(whole.size() == 5 * 30 + 4);
  const auto last = std::find_if(whole.begin(), whole.end(), [](auto& line) {
    return line.find("rank 29") != std::string::npos;
  });
  CHECK(last != whole.end());
}

TEST_CASE("a full cell is cut, but for --expand") {
  const Schedule schedule = schedule_of("direct", CollectiveKind::AllToAll, 12);
  const Lines cut = draw_schedule(schedule, style_of(200), false);
  CHECK(cut.size() == 9);
  CHECK(cut.back().find("and 4 more") != std::string::npos);
  CHECK(draw_schedule(schedule, style_of(200), true).size() == 12);
}

TEST_CASE("one rank is drawn however narrow it gets") {
  const Lines lines =
      draw_schedule(schedule_of("pairwise", CollectiveKind::AllGather, 3),
                    style_of(5), false);
  CHECK(lines == Lines{"step  rank 0", "   1  0 → 1", "   2  0 → 2",
                       "2 ranks not shown (--expand)"});
}

}  // namespace
}  // namespace shardplan::cli
