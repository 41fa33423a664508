// SPDX-License-Identifier: Apache-2.0
#include "comm/schedule.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/check.h"
#include "tests/comm/schedule_text.h"

namespace shardplan {
namespace {

using testing::schedule_text;

using Sizes = std::vector<int64_t>;

TEST_CASE("kinds are found by name") {
  for (int i = 0; i < kCollectiveKinds; ++i) {
    const auto kind = static_cast<CollectiveKind>(i);
    CHECK(find_collective(collective_name(kind)) == kind);
  }
  CHECK(collective_name(CollectiveKind::Broadcast) == "broadcast");
  CHECK_FALSE(find_collective("gather").has_value());
}

TEST_CASE("what arrives is the left operand") {
  const Schedule schedule{2, 2, {{{0, 1, 0, 2, true}}, {{1, 0, 1}}}};
  std::vector<std::vector<std::string>> slots = {{"a", "b"}, {"c", "d"}};
  execute(schedule, slots, [](const std::string& x, const std::string& y) {
    return "(" + x + "+" + y + ")";
  });
  CHECK(slots[1] == std::vector<std::string>{"(a+c)", "(b+d)"});
  CHECK(slots[0] == std::vector<std::string>{"a", "(b+d)"});
}

TEST_CASE("backwards is every transfer the other way, added, last first") {
  const Schedule schedule{3, 1, {{{0, 1, 0}}, {{1, 2, 0}}}};
  CHECK(schedule_text(backwards(schedule)) == "2>1:0+ | 1>0:0+");
}

TEST_CASE("appended steps come after, on the same chunks") {
  Schedule schedule{3, 1, {{{0, 1, 0}}}};
  append(schedule, {3, 1, {{{1, 2, 0}}}});
  CHECK(schedule_text(schedule) == "0>1:0 | 1>2:0");
  CHECK_THROWS_AS(append(schedule, empty_schedule(3, 2)), InternalError);
  CHECK_THROWS_AS(append(schedule, empty_schedule(4, 1)), InternalError);
}

TEST_CASE("chunks are numbered by an int") {
  CHECK(empty_schedule(1, 2147483647).chunks == 2147483647);
  CHECK_THROWS_AS(empty_schedule(1, 2147483648), InternalError);
  CHECK_THROWS_AS(empty_schedule(0, 1), InternalError);
}

TEST_CASE("a payload is cut into shards first, then into pieces") {
  const auto sizes = [](CollectiveKind kind, int ranks, int chunks,
                        int64_t payload) {
    return chunk_sizes(kind, {ranks, chunks, {}}, payload);
  };
  CHECK(sizes(CollectiveKind::AllGather, 2, 4, 6) == Sizes{1, 2, 1, 2});
  CHECK(sizes(CollectiveKind::ReduceScatter, 2, 2, 7) == Sizes{3, 4});
  CHECK(sizes(CollectiveKind::AllReduce, 2, 4, 6) == Sizes{1, 2, 1, 2});
  CHECK(sizes(CollectiveKind::AllReduce, 2, 3, 10) == Sizes{3, 3, 4});
  CHECK(sizes(CollectiveKind::Broadcast, 3, 1, 10) == Sizes{10});
  CHECK(sizes(CollectiveKind::AllToAll, 2, 4, 5) == Sizes{2, 3, 2, 3});
  CHECK(sizes(CollectiveKind::Permute, 2, 4, 5) == Sizes{2, 3, 2, 3});
  CHECK_THROWS_AS(sizes(CollectiveKind::AllGather, 2, 3, 6), InternalError);
}

TEST_CASE("traffic counts bytes, the busiest rank, and steps that carry any") {
  const Schedule schedule{
      3, 3, {{{0, 1, 0, 2}, {2, 1, 2}}, {{1, 0, 1}}, {{0, 2, 0}}}};
  const Traffic moved = traffic(schedule, {4, 0, 7});
  CHECK(moved.total == 4 + 7 + 0 + 4);
  CHECK(moved.busiest == 8);
  CHECK(moved.steps == 2);
  CHECK(traffic(empty_schedule(2, 0), {}).busiest == 0);
}

}  // namespace
}  // namespace shardplan
