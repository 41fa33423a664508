// SPDX-License-Identifier: Apache-2.0
// That the schedules do what they promise, at the price they say, is in
// tests/comm/collective_test.cc.
#include <doctest/doctest.h>

#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;
using testing::steps;

TEST_CASE("sums go up the tree, results down") {
  CHECK(schedule_text("binary-tree", CollectiveKind::Broadcast, 6) ==
        "0>1:0 0>2:0 | 1>3:0 1>4:0 2>5:0");
  CHECK(schedule_text("binary-tree", CollectiveKind::AllReduce, 4) ==
        "3>1:0+ | 1>0:0+ 2>0:0+ | 0>1:0 0>2:0 | 1>3:0");
  CHECK(steps("binary-tree", CollectiveKind::Broadcast, 33) == 5);
  CHECK(steps("binary-tree", CollectiveKind::AllReduce, 1) == 0);
}

}  // namespace
}  // namespace shardplan
