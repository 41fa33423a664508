// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

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
