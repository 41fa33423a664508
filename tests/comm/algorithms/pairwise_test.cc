// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

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

}  // namespace
}  // namespace shardplan
