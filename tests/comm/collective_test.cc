// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.h"

#include <limits>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/comm/symbolic.h"

namespace shardplan {
namespace {

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
