// SPDX-License-Identifier: Apache-2.0
// Bidirectional ring: both directions of every link are used in every step, so
// that an all-gather takes half the steps of a ring: each shard goes up for
// n / 2 ranks and at the same time down for (n - 1) / 2, rounded down. The
// shards arrive as in async_gather_bidirectional of
// xlstm_jax.distributed.tensor_parallel, which takes the directions in turn.
//
// All-to-all takes the shorter way round for every pair of ranks. Its chunks
// are passed on by the ranks between, as on a torus, so that it sends more
// than one that every rank can do directly.
#include <algorithm>
#include <utility>

#include "comm/algorithms/algorithms.h"
#include "comm/even_cut.h"

namespace shardplan {
namespace {

int hops_up(int n) { return n / 2; }
int hops_down(int n) { return (n - 1) / 2; }

int rank_at(int64_t index, int n) { return static_cast<int>(wrap(index, n)); }

Schedule all_gather(int n) {
  Schedule schedule = empty_schedule(n, n);
  for (int hop = 0; hop < hops_up(n); ++hop) {
    Step step;
    for (int rank = 0; rank < n; ++rank) {
      step.push_back({rank, rank_at(rank + 1, n), rank_at(rank - hop, n)});
      if (hop >= hops_down(n)) continue;
      step.push_back({rank, rank_at(rank - 1, n), rank_at(rank + hop, n)});
    }
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

// A pipeline of n chunks in each direction.
Schedule broadcast(int n) {
  Schedule schedule = empty_schedule(n, n);
  const auto pass = [&](Step& step, int direction, int hops, int time) {
    for (int hop = 0; hop < hops; ++hop) {
      const int chunk = time - hop;
      if (chunk < 0 || chunk >= n) continue;
      step.push_back({rank_at(direction * hop, n),
                      rank_at(direction * (hop + 1), n), chunk});
    }
  };
  for (int time = 0; n > 1 && time < n + hops_up(n) - 1; ++time) {
    Step& step = schedule.steps.emplace_back();
    pass(step, 1, hops_up(n), time);
    pass(step, -1, hops_down(n), time);
  }
  return schedule;
}

// What `source` has for `count` ranks from `first` on, as at most two
// transfers of neighbouring chunks.
void push_parts(Step& step, int rank, int target, int n, int source, int first,
                int count) {
  const int straight = std::min(count, n - first);
  step.push_back({rank, target, source * n + first, straight});
  if (count > straight) {
    step.push_back({rank, target, source * n, count - straight});
  }
}

// After h hops a rank passes on what came h ranks far and goes further.
Schedule all_to_all(int n) {
  Schedule schedule = empty_schedule(n, int64_t{n} * n);
  for (int hop = 0; hop < hops_up(n); ++hop) {
    Step step;
    for (int rank = 0; rank < n; ++rank) {
      push_parts(step, rank, rank_at(rank + 1, n), n, rank_at(rank - hop, n),
                 rank_at(rank + 1, n), hops_up(n) - hop);
      if (hop >= hops_down(n)) continue;
      push_parts(step, rank, rank_at(rank - 1, n), n, rank_at(rank + hop, n),
                 rank_at(rank + hop - hops_down(n), n), hops_down(n) - hop);
    }
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

bool supports(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind != CollectiveKind::Permute;
}

Schedule schedule_of(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  if (kind == CollectiveKind::AllGather) return all_gather(n);
  if (kind == CollectiveKind::Broadcast) return broadcast(n);
  if (kind == CollectiveKind::AllToAll) return all_to_all(n);
  Schedule schedule = backwards(all_gather(n));
  if (kind == CollectiveKind::AllReduce) append(schedule, all_gather(n));
  return schedule;
}

// What is for the rank d up passes through from n / 2 - d + 1 sources.
int64_t sent_to_all(const EvenCut& cut, int rank, int n) {
  int64_t sum = 0;
  for (int away = 1; away <= hops_up(n); ++away) {
    sum += cut.size(rank + away) * (hops_up(n) - away + 1);
  }
  for (int away = 1; away <= hops_down(n); ++away) {
    sum += cut.size(rank - away) * (hops_down(n) - away + 1);
  }
  return sum;
}

// Copies of the whole: each way one, unless the way ends at or before `rank`.
int64_t copies_from(int rank, int n) {
  if (rank == 0) return (hops_up(n) > 0 ? 1 : 0) + (hops_down(n) > 0 ? 1 : 0);
  return rank == hops_up(n) || rank == n - hops_down(n) ? 0 : 1;
}

int64_t sent(CollectiveKind kind, const Ranks& ranks, int rank,
             int64_t payload) {
  const int n = ranks.count;
  const EvenCut cut{payload, n};
  const int64_t gathered =
      cut.run(rank - hops_up(n) + 1, hops_up(n)) + cut.run(rank, hops_down(n));
  const int64_t reduced = payload - cut.size(rank);
  switch (kind) {
    case CollectiveKind::AllGather:
      return gathered;
    case CollectiveKind::ReduceScatter:
      return reduced;
    case CollectiveKind::AllReduce:
      return reduced + gathered;
    case CollectiveKind::AllToAll:
      return sent_to_all(cut, rank, n);
    default:
      return payload * copies_from(rank, n);
  }
}

// The sum of the shorter ways from one rank to all others is n n / 4.
int64_t copies(CollectiveKind kind, const Ranks& ranks) {
  const int64_t n = ranks.count;
  return kind == CollectiveKind::AllToAll ? n * n / 4
                                          : least_copies(kind, ranks.count);
}

}  // namespace

const Algorithm kBidirectionalRing = {
    "bidirectional-ring",
    "up and down at the same time: half the steps of a ring",
    supports,
    schedule_of,
    sent,
    copies};

}  // namespace shardplan
