// SPDX-License-Identifier: Apache-2.0

#include "comm/collective.h"

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/checked.h"
#include "tests/comm/schedule_text.h"
#include "tests/comm/symbolic.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

// Bytes that no algorithm can do without; those that exceed an int64_t are the
// largest.
int64_t least_bytes(CollectiveKind kind, int ranks, int64_t payload) {
  return saturated_product(least_copies(kind, ranks), payload);
}

// Bytes that the busiest rank sends by the closed form; exact where the payload
// times twice the ranks fits an int64_t.
std::optional<int64_t> priced_busiest(const Algorithm& algorithm,
                                      CollectiveKind kind, const Ranks& ranks,
                                      int64_t payload) {
  if (!algorithm.supports(kind, ranks)) return std::nullopt;
  // No rank sends more, so that nothing below can overflow.
  if (!checked_mul(payload, 2 * int64_t{ranks.count})) {
    return std::numeric_limits<int64_t>::max();
  }
  int64_t busiest = 0;
  for (int rank = 0; rank < ranks.count; ++rank) {
    busiest = std::max(busiest, algorithm.sent(kind, ranks, rank, payload));
  }
  return busiest;
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST_CASE("parts differ by one at most, and are the total together") {
  std::vector<int64_t> sizes;
  for (int64_t part = 0; part < 4; ++part) {
    sizes.push_back(EvenCut{10, 4}.size(part));
  }
  CHECK(sizes == std::vector<int64_t>{2, 3, 2, 3});
  CHECK(EvenCut{kMost, 3}.begin(3) == kMost);
  CHECK(EvenCut{0, 5}.size(4) == 0);
  CHECK(holds("parts of an even cut", [] {
    const EvenCut cut{draw_in<int64_t>(0, 1000), draw_in<int64_t>(1, 50)};
    int64_t sum = 0;
    for (int64_t part = 0; part < cut.parts; ++part) {
      ENSURE(cut.begin(part) == sum);
      const int64_t rest = cut.size(part) - cut.total / cut.parts;
      ENSURE(rest == 0 || rest == 1);
      sum += cut.size(part);
    }
    ENSURE(sum == cut.total);
  }));
}

TEST_CASE("runs of parts go round") {
  CHECK(holds("runs are sums of parts", [] {
    const EvenCut cut{draw_in<int64_t>(0, 1000), draw_in<int64_t>(1, 20)};
    const auto first = draw_in<int64_t>(-40, 40);
    const auto count = draw_in<int64_t>(0, cut.parts + 1);
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += cut.size(first + i);
    ENSURE(cut.run(first, count) == sum);
  }));
}

TEST_CASE("indices wrap, and products saturate") {
  CHECK(wrap(-1, 4) == 3);
  CHECK(wrap(-8, 4) == 0);
  CHECK(wrap(9, 4) == 1);
  CHECK(saturated_product(3, 5) == 15);
  CHECK(saturated_product(kMost / 2, 3) == kMost);
}

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

using testing::wrong_result;
using testing::wrong_step;

constexpr int kMostRanks = 33;

std::vector<CollectiveKind> kinds() {
  std::vector<CollectiveKind> all;
  for (int i = 0; i < kCollectiveKinds; ++i) {
    all.push_back(static_cast<CollectiveKind>(i));
  }
  return all;
}

// Calls `f(algorithm, kind, ranks)` for all that is supported.
template <typename F>
void for_everything(F f) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const CollectiveKind kind : kinds()) {
      for (int n = 1; n <= kMostRanks; ++n) {
        for (int inner = 1; inner <= n; ++inner) {
          const Ranks ranks{n, inner};
          // Only the hierarchical algorithm looks at the fast axis.
          const bool looks = algorithm.name == "hierarchical";
          if (n % inner != 0 || (inner > 1 && !looks)) continue;
          if (!algorithm.supports(kind, ranks)) continue;
          CAPTURE(algorithm.name);
          CAPTURE(collective_name(kind));
          CAPTURE(n);
          CAPTURE(inner);
          f(algorithm, kind, ranks);
        }
      }
    }
  }
}

TEST_CASE("every algorithm, kind and number of ranks does what is promised") {
  std::set<std::string_view> seen;
  for_everything(
      [&](const Algorithm& algorithm, CollectiveKind kind, const Ranks& ranks) {
        const Schedule schedule = algorithm.schedule(kind, ranks);
        CHECK(schedule.ranks == ranks.count);
        CHECK(wrong_step(schedule) == "");
        CHECK(wrong_result(kind, schedule) == "");
        seen.insert(algorithm.name);
      });
  CHECK(seen.size() == algorithms().size());
}

TEST_CASE("bytes of schedules are the closed forms, and no fewer than needed") {
  for_everything([](const Algorithm& algorithm, CollectiveKind kind,
                    const Ranks& ranks) {
    const Schedule schedule = algorithm.schedule(kind, ranks);
    const int64_t n = ranks.count;
    for (const int64_t payload :
         {int64_t{0}, int64_t{1}, 2 * n, 7 * n + 3, int64_t{1000}}) {
      CAPTURE(payload);
      const std::vector<int64_t> sizes = chunk_sizes(kind, schedule, payload);
      const Traffic moved = traffic(schedule, sizes);
      CHECK(moved.total == priced_bytes(algorithm, kind, ranks, payload));
      CHECK(moved.busiest == priced_busiest(algorithm, kind, ranks, payload));
      CHECK(moved.total >= least_bytes(kind, ranks.count, payload));
      int64_t sum = 0;
      for (int rank = 0; rank < ranks.count; ++rank) {
        sum += algorithm.sent(kind, ranks, rank, payload);
      }
      CHECK(sum == moved.total);
    }
  });
}

// What must cross between ranks, counted from who has and who needs what.
int64_t needed(CollectiveKind kind, const Schedule& s,
               const std::vector<int64_t>& sizes) {
  int64_t bytes = 0;
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    int have = 0;
    int need = 0;
    int lack = 0;
    for (int rank = 0; rank < s.ranks; ++rank) {
      const bool has = testing::begins_with(kind, s, rank, chunk);
      bool needs = false;
      testing::promised(kind, s, rank, chunk, needs);
      have += has ? 1 : 0;
      need += needs ? 1 : 0;
      lack += needs && !has ? 1 : 0;
    }
    // Sums meet along a tree, then go to all who need them but one.
    const bool sums = kind == CollectiveKind::AllReduce ||
                      kind == CollectiveKind::ReduceScatter;
    const int copies = sums ? have - 1 + need - 1 : lack;
    bytes += copies * sizes[static_cast<size_t>(chunk)];
  }
  return bytes;
}

TEST_CASE("the lower bound is what has to cross") {
  for (const CollectiveKind kind : kinds()) {
    for (int n = 1; n <= kMostRanks; ++n) {
      CAPTURE(collective_name(kind));
      CAPTURE(n);
      const Schedule schedule =
          find_algorithm("direct")->schedule(kind, {n, 1});
      CHECK(least_bytes(kind, n, 100) ==
            needed(kind, schedule, chunk_sizes(kind, schedule, 100)));
    }
  }
  CHECK(least_bytes(CollectiveKind::AllReduce, 4, 1000) == 6000);
  CHECK(least_bytes(CollectiveKind::Permute, 1, 1000) == 0);
}

// The table of docs/collectives.md.
int64_t expected_steps(const Algorithm& algorithm, CollectiveKind kind,
                       const Ranks& ranks) {
  const int64_t n = ranks.count;
  const int64_t twice = kind == CollectiveKind::AllReduce ? 2 : 1;
  const bool broadcast = kind == CollectiveKind::Broadcast;
  int64_t log = 0;
  while (int64_t{2} << log <= n) ++log;
  if (kind == CollectiveKind::Permute) return n == 1 ? 0 : 1;
  if (algorithm.name == "pairwise") return twice * (n - 1);
  if (algorithm.name == "bidirectional-ring") {
    return broadcast ? n - 1 + n / 2 : twice * (n / 2);
  }
  if (algorithm.name == "halving-doubling") {
    return twice * log + (int64_t{1} << log == n ? 0 : 2);
  }
  if (algorithm.name == "binary-tree") return twice * log;
  if (algorithm.name == "direct") return n == 1 ? 0 : twice;
  const int64_t along = algorithm.name == "hierarchical"
                            ? ranks.inner - 1 + n / ranks.inner - 1
                            : n - 1;
  return (broadcast ? 2 : twice) * along;
}

TEST_CASE("steps are as many as the document says") {
  for_everything([](const Algorithm& algorithm, CollectiveKind kind,
                    const Ranks& ranks) {
    CHECK(static_cast<int64_t>(algorithm.schedule(kind, ranks).steps.size()) ==
          expected_steps(algorithm, kind, ranks));
  });
}

TEST_CASE("a schedule that lacks a transfer, or has one twice, is found out") {
  int mutants = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const CollectiveKind kind : kinds()) {
      const Ranks ranks{6, 3};
      if (!algorithm.supports(kind, ranks)) continue;
      const Schedule schedule = algorithm.schedule(kind, ranks);
      CAPTURE(algorithm.name);
      CAPTURE(collective_name(kind));
      for (size_t step = 0; step < schedule.steps.size(); ++step) {
        for (size_t i = 0; i < schedule.steps[step].size(); ++i) {
          Schedule less = schedule;
          less.steps[step].erase(less.steps[step].begin() +
                                 static_cast<std::ptrdiff_t>(i));
          CHECK(wrong_result(kind, less) != "");
          ++mutants;
          if (!schedule.steps[step][i].reduce) continue;
          Schedule more = schedule;
          more.steps[step].push_back(schedule.steps[step][i]);
          CHECK(wrong_result(kind, more) != "");
        }
      }
    }
  }
  CHECK(mutants > 500);
}

TEST_CASE("every kind has an algorithm for every number of ranks") {
  for (const CollectiveKind kind : kinds()) {
    for (const Algorithm& wanted : algorithms()) {
      for (int n = 1; n <= kMostRanks; ++n) {
        const Ranks ranks{n, 1};
        const Algorithm& chosen = algorithm_for(kind, ranks, &wanted);
        CHECK(chosen.supports(kind, ranks));
        if (wanted.supports(kind, ranks)) CHECK(&chosen == &wanted);
      }
    }
    const Ranks ranks{8, 4};
    const Algorithm& first = algorithm_for(kind, ranks, nullptr);
    CHECK(first.name ==
          (kind == CollectiveKind::AllToAll ? "pairwise" : "ring"));
    CHECK(priced_bytes(first, kind, ranks, 64) == least_bytes(kind, 8, 64));
  }
}

TEST_CASE("algorithms are found by name, and have names of their own") {
  std::set<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) {
    names.insert(algorithm.name);
    CHECK(find_algorithm(algorithm.name) == &algorithm);
    CHECK_FALSE(algorithm.summary.empty());
  }
  CHECK(names == std::set<std::string_view>{
                     "ring", "ring-down", "bidirectional-ring", "split-ring",
                     "halving-doubling", "binary-tree", "pairwise",
                     "hierarchical", "direct"});
  CHECK(find_algorithm("rings") == nullptr);
  CHECK(algorithms().front().name == "ring");
}

TEST_CASE("what an algorithm does not support has no price") {
  const Algorithm& ring = *find_algorithm("ring");
  const Algorithm& hierarchical = *find_algorithm("hierarchical");
  const auto gather = CollectiveKind::AllGather;
  CHECK_FALSE(priced_bytes(ring, CollectiveKind::AllToAll, {4, 1}, 8));
  CHECK_FALSE(priced_busiest(ring, CollectiveKind::AllToAll, {4, 1}, 8));
  for (const int inner : {1, 8, 3}) {
    CHECK_FALSE(priced_bytes(hierarchical, gather, {8, inner}, 8));
  }
  CHECK(priced_bytes(hierarchical, gather, {8, 2}, 8) == 56);
}

TEST_CASE("prices of many ranks need no schedule, and saturate") {
  const Algorithm& ring = *find_algorithm("ring");
  const auto reduce = CollectiveKind::AllReduce;
  const Ranks many{1 << 20, 1};
  CHECK(priced_bytes(ring, reduce, many, 1 << 20) ==
        2 * ((int64_t{1} << 20) - 1) << 20);
  CHECK(priced_busiest(ring, reduce, many, 1 << 20) == 2 * (1 << 20) - 2);
  const int64_t most = std::numeric_limits<int64_t>::max();
  CHECK(priced_bytes(ring, reduce, many, most / 2) == most);
  CHECK(priced_busiest(ring, reduce, many, most / 2) == most);
  CHECK(least_bytes(reduce, many.count, most / 2) == most);
  CHECK(priced_busiest(ring, reduce, {1, 1}, most / 2) == 0);
}

}  // namespace

}  // namespace shardplan
