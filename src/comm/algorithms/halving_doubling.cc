// SPDX-License-Identifier: Apache-2.0
// Recursive halving and doubling, for powers of two: in an all-gather ranks
// exchange all they have with the rank at distance 1, then 2, 4, ..., so that
// what they have doubles; a reduce-scatter is that backwards. log2(n) steps and
// no more bytes than a ring. An all-reduce is both in turn (Rabenseifner).
//
// For other numbers of ranks an all-reduce first adds the surplus ranks' values
// to those of the first ranks, and sends them the result at the end: Thakur,
// Rabenseifner and Gropp, "Optimization of Collective Communication Operations
// in MPICH", 2005, section 4.5, but for which ranks are paired.
#include <bit>
#include <utility>

#include "comm/algorithms/algorithms.h"
#include "comm/even_cut.h"

namespace shardplan {
namespace {

// The largest power of two among the ranks.
int core_of(int n) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
}

// Among the first `core` of n ranks.
Schedule all_gather(int n, int core) {
  Schedule schedule = empty_schedule(n, core);
  for (int distance = 1; distance < core; distance *= 2) {
    Step step;
    for (int rank = 0; rank < core; ++rank) {
      const int block = rank & ~(distance - 1);
      step.push_back({rank, rank ^ distance, block, distance});
    }
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

Schedule all_reduce(int n) {
  const int core = core_of(n);
  Schedule schedule = empty_schedule(n, core);
  Step fold;
  Step unfold;
  for (int rank = core; rank < n; ++rank) {
    fold.push_back({rank, rank - core, 0, core, true});
    unfold.push_back({rank - core, rank, 0, core});
  }
  if (n > core) schedule.steps.push_back(std::move(fold));
  const Schedule gather = all_gather(n, core);
  append(schedule, backwards(gather));
  append(schedule, gather);
  if (n > core) schedule.steps.push_back(std::move(unfold));
  return schedule;
}

bool supports(CollectiveKind kind, const Ranks& ranks) {
  const bool even = core_of(ranks.count) == ranks.count;
  return kind == CollectiveKind::AllReduce ||
         (even && (kind == CollectiveKind::AllGather ||
                   kind == CollectiveKind::ReduceScatter));
}

Schedule schedule_of(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  if (kind == CollectiveKind::AllReduce) return all_reduce(n);
  const Schedule gather = all_gather(n, n);
  return kind == CollectiveKind::AllGather ? gather : backwards(gather);
}

int64_t sent(CollectiveKind kind, const Ranks& ranks, int rank,
             int64_t payload) {
  const int n = ranks.count;
  const int core = core_of(n);
  if (rank >= core) return payload;
  const EvenCut cut{payload, core};
  int64_t gathered = 0;
  for (int distance = 1; distance < core; distance *= 2) {
    gathered += cut.run(rank & ~(distance - 1), distance);
  }
  const int64_t reduced = payload - cut.size(rank);
  if (kind == CollectiveKind::AllGather) return gathered;
  if (kind == CollectiveKind::ReduceScatter) return reduced;
  return reduced + gathered + (rank + core < n ? payload : 0);
}

}  // namespace

const Algorithm kHalvingDoubling = {
    "halving-doubling", "partners at distances 1, 2, 4, ...: log2(n) steps",
    supports, schedule_of, sent};

}  // namespace shardplan
