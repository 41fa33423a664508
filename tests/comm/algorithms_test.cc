// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/schedule_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

TEST_CASE("a ring passes on what came last, to one neighbour") {
  CHECK(schedule_text("ring", CollectiveKind::AllGather, 3) ==
        "0>1:0 1>2:1 2>0:2 | 0>1:2 1>2:0 2>0:1");
  CHECK(schedule_text("ring-down", CollectiveKind::AllGather, 3) ==
        "0>2:0 1>0:1 2>1:2 | 0>2:1 1>0:2 2>1:0");
  CHECK(schedule_text("ring", CollectiveKind::Permute, 3) ==
        "0>1:0 1>2:1 2>0:2");
}

TEST_CASE("a sum begins behind the rank where it ends") {
  CHECK(schedule_text("ring", CollectiveKind::ReduceScatter, 3) ==
        "0>1:2+ 1>2:0+ 2>0:1+ | 0>1:1+ 1>2:2+ 2>0:0+");
  CHECK(schedule_text("ring", CollectiveKind::AllReduce, 2) ==
        "0>1:1+ 1>0:0+ | 0>1:0 1>0:1");
}

TEST_CASE("a ring broadcasts in a pipeline") {
  CHECK(schedule_text("ring", CollectiveKind::Broadcast, 3) ==
        "0>1:0 | 0>1:1 1>2:0 | 0>1:2 1>2:1 | 1>2:2");
  CHECK(steps("ring", CollectiveKind::AllReduce, 9) == 16);
}

TEST_CASE("both directions take half the steps of one") {
  CHECK(schedule_text("bidirectional-ring", CollectiveKind::AllGather, 4) ==
        "0>1:0 0>3:0 1>2:1 1>0:1 2>3:2 2>1:2 3>0:3 3>2:3 | "
        "0>1:3 1>2:0 2>3:1 3>0:2");
  for (int n = 1; n < 12; ++n) {
    const auto half = static_cast<size_t>(n / 2);
    CHECK(steps("bidirectional-ring", CollectiveKind::AllGather, n) == half);
    CHECK(steps("bidirectional-ring", CollectiveKind::AllReduce, n) ==
          2 * half);
    CHECK(steps("bidirectional-ring", CollectiveKind::AllToAll, n) == half);
  }
}

TEST_CASE("all-to-all passes on what goes further") {
  CHECK(schedule_text("bidirectional-ring", CollectiveKind::AllToAll, 4) ==
        "0>1:1-2 0>3:3 1>2:6-7 1>0:4 2>3:11 2>3:8 2>1:9 3>0:12-13 3>2:14 | "
        "0>1:13 1>2:2 2>3:7 3>0:8");
  // Distances 1, 2, 3, 3, 2, 1 of seven ranks.
  CHECK(priced_bytes(*find_algorithm("bidirectional-ring"),
                     CollectiveKind::AllToAll, {7, 1}, 70) == 7 * 10 * 12);
}

TEST_CASE("first halves go up, second halves down") {
  CHECK(schedule_text("split-ring", CollectiveKind::AllGather, 3) ==
        "0>1:0 1>2:2 2>0:4 0>2:1 1>0:3 2>1:5 | "
        "0>1:4 1>2:0 2>0:2 0>2:3 1>0:5 2>1:1");
  CHECK(schedule_text("split-ring", CollectiveKind::ReduceScatter, 2) ==
        "0>1:2+ 1>0:0+ 0>1:3+ 1>0:1+");
}

TEST_CASE("a split broadcast is cut in halves, not in shards") {
  CHECK(schedule_text("split-ring", CollectiveKind::Broadcast, 2) ==
        "0>1:0 0>1:2 | 0>1:1 0>1:3");
  CHECK(steps("split-ring", CollectiveKind::AllReduce, 8) == 14);
}

TEST_CASE("sums go up the tree, results down") {
  CHECK(schedule_text("binary-tree", CollectiveKind::Broadcast, 6) ==
        "0>1:0 0>2:0 | 1>3:0 1>4:0 2>5:0");
  CHECK(schedule_text("binary-tree", CollectiveKind::AllReduce, 4) ==
        "3>1:0+ | 1>0:0+ 2>0:0+ | 0>1:0 0>2:0 | 1>3:0");
  CHECK(steps("binary-tree", CollectiveKind::Broadcast, 33) == 5);
  CHECK(steps("binary-tree", CollectiveKind::AllReduce, 1) == 0);
}

TEST_CASE("what ranks have doubles with the distance") {
  CHECK(schedule_text("halving-doubling", CollectiveKind::AllGather, 4) ==
        "0>1:0 1>0:1 2>3:2 3>2:3 | 0>2:0-1 1>3:0-1 2>0:2-3 3>1:2-3");
  CHECK(schedule_text("halving-doubling", CollectiveKind::ReduceScatter, 4) ==
        "2>0:0-1+ 3>1:0-1+ 0>2:2-3+ 1>3:2-3+ | 1>0:0+ 0>1:1+ 3>2:2+ 2>3:3+");
  CHECK(steps("halving-doubling", CollectiveKind::AllReduce, 32) == 10);
}

TEST_CASE("surplus ranks are added before, and given the sum at the end") {
  CHECK(schedule_text("halving-doubling", CollectiveKind::AllReduce, 3) ==
        "2>0:0-1+ | 1>0:0+ 0>1:1+ | 0>1:0 1>0:1 | 0>2:0-1");
  CHECK(steps("halving-doubling", CollectiveKind::AllReduce, 33) == 12);
  const Algorithm& algorithm = *find_algorithm("halving-doubling");
  CHECK_FALSE(algorithm.supports(CollectiveKind::AllGather, {3, 1}));
  CHECK_FALSE(algorithm.supports(CollectiveKind::Broadcast, {4, 1}));
}

TEST_CASE("sums are reduced on the fast axis first") {
  // Ranks 0 1 and 2 3 are groups.
  CHECK(schedule_text("hierarchical", CollectiveKind::ReduceScatter, 4, 2) ==
        "0>1:1+ 0>1:3+ 1>0:0+ 1>0:2+ 2>3:1+ 2>3:3+ 3>2:0+ 3>2:2+ | "
        "0>2:2+ 2>0:0+ 1>3:3+ 3>1:1+");
  CHECK(schedule_text("hierarchical", CollectiveKind::AllGather, 4, 2) ==
        "0>2:0 2>0:2 1>3:1 3>1:3 | "
        "0>1:0 0>1:2 1>0:1 1>0:3 2>3:0 2>3:2 3>2:1 3>2:3");
}

TEST_CASE("the slow axis carries one part of the payload per place") {
  const Schedule schedule = find_algorithm("hierarchical")
                                ->schedule(CollectiveKind::AllReduce, {12, 4});
  int slow = 0;
  for (const Step& step : schedule.steps) {
    for (const Transfer& t : step) {
      if (t.source / 4 != t.target / 4) slow += t.chunk_count;
    }
  }
  // Twice (groups - 1) times the 12 chunks.
  CHECK(slow == 2 * 2 * 12);
  CHECK(schedule.steps.size() == 2 * (3 + 2));
}

TEST_CASE("all-to-all goes to the place first, then to the group") {
  CHECK(schedule_text("hierarchical", CollectiveKind::AllToAll, 4, 2) ==
        "0>1:1 0>1:3 1>0:4 1>0:6 2>3:9 2>3:11 3>2:12 3>2:14 | "
        "0>2:2 0>2:6 2>0:8 2>0:12 1>3:3 1>3:7 3>1:9 3>1:13");
  CHECK(steps("hierarchical", CollectiveKind::Broadcast, 6, 3) == 2 + 4);
}

TEST_CASE("powers of two exchange, others go round") {
  CHECK(schedule_text("pairwise", CollectiveKind::AllToAll, 3) ==
        "0>1:1 1>2:5 2>0:6 | 0>2:2 1>0:3 2>1:7");
  CHECK(schedule_text("pairwise", CollectiveKind::ReduceScatter, 4) ==
        "0>1:1+ 1>0:0+ 2>3:3+ 3>2:2+ | 0>2:2+ 1>3:3+ 2>0:0+ 3>1:1+ | "
        "0>3:3+ 1>2:2+ 2>1:1+ 3>0:0+");
  CHECK(schedule_text("pairwise", CollectiveKind::AllGather, 3) ==
        "0>1:0 1>2:1 2>0:2 | 0>2:0 1>0:1 2>1:2");
  CHECK(steps("pairwise", CollectiveKind::AllReduce, 7) == 12);
}

TEST_CASE("everything is sent at once") {
  CHECK(schedule_text("direct", CollectiveKind::AllGather, 3) ==
        "0>1:0 1>2:1 2>0:2 0>2:0 1>0:1 2>1:2");
  CHECK(schedule_text("direct", CollectiveKind::Broadcast, 3) == "0>1:0 0>2:0");
  CHECK(schedule_text("direct", CollectiveKind::AllToAll, 2) == "0>1:1 1>0:2");
  CHECK(steps("direct", CollectiveKind::AllReduce, 9) == 2);
  CHECK(steps("direct", CollectiveKind::Permute, 9) == 1);
  CHECK(steps("direct", CollectiveKind::AllToAll, 1) == 0);
}

}  // namespace

}  // namespace shardplan
