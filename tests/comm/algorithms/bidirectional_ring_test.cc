// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

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

}  // namespace
}  // namespace shardplan
