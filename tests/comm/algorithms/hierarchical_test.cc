// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

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

}  // namespace
}  // namespace shardplan
