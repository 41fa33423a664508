// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

TEST_CASE("what ranks have doubles with the distance") {
  CHECK(schedule_text("halving-doubling", CollectiveKind::AllGather, 4) ==
        "0>1:0 1>0:1 2>3:2 3>2:3 | 0>2:0-1 1>3:0-1 2>0:2-3 3>1:2-3");
  CHECK(schedule_text("halving-doubling", CollectiveKind::ReduceScatter, 4) ==
        "2>0:0-1+ 3>1:0-1+ 0>2:2-3+ 1>3:2-3+ | 1>0:0+ 0>1:1+ 3>2:2+ 2>3:3+");
  CHECK(steps("halving-doubling", CollectiveKind::AllReduce, 32) == 10);
}

TEST_CASE("surplus ranks are added before, and told at the end") {
  CHECK(schedule_text("halving-doubling", CollectiveKind::AllReduce, 3) ==
        "2>0:0-1+ | 1>0:0+ 0>1:1+ | 0>1:0 1>0:1 | 0>2:0-1");
  CHECK(steps("halving-doubling", CollectiveKind::AllReduce, 33) == 12);
  const Algorithm& algorithm = *find_algorithm("halving-doubling");
  CHECK_FALSE(algorithm.supports(CollectiveKind::AllGather, {3, 1}));
  CHECK_FALSE(algorithm.supports(CollectiveKind::Broadcast, {4, 1}));
}

}  // namespace
}  // namespace shardplan
