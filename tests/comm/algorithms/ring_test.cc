// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
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

}  // namespace
}  // namespace shardplan
