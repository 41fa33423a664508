// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

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

}  // namespace
}  // namespace shardplan
