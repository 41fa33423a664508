// SPDX-License-Identifier: Apache-2.0
// Rings: every rank sends only to the next one, rank + 1 (up) or rank - 1
// (down).
//
// In an all-gather, a rank passes on what it received last, beginning with its
// own shard, in n - 1 steps. In a reduce-scatter, the chunk of rank c begins at
// c + 1 and reaches c last, and each rank on the way adds its own part: the
// association of async_scatter in xlstm_jax.distributed.tensor_parallel. An
// all-reduce is both in turn, in 2 (n - 1) steps (Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009). A broadcast is a pipeline of n chunks that starts at rank 0.
#include <algorithm>
#include <utility>

#include "comm/algorithms/algorithms.h"
#include "comm/collective.h"

namespace shardplan {
namespace {

constexpr int kUp = 1;
constexpr int kDown = -1;

int rank_at(int64_t index, int n) { return static_cast<int>(wrap(index, n)); }

// Returns n - 1 steps in which every rank sends a chunk to its neighbour: first
// that of the rank `lag` ranks back, then in each step that of one rank further
// back.
Schedule rotation(int n, int direction, int lag, bool reduce) {
  Schedule schedule = empty_schedule(n, n);
  for (int step = 0; step + 1 < n; ++step) {
    Step& transfers = schedule.steps.emplace_back();
    for (int rank = 0; rank < n; ++rank) {
      transfers.push_back({rank, rank_at(rank + direction, n),
                           rank_at(rank - direction * (step + lag), n), 1,
                           reduce});
    }
  }
  return schedule;
}

// Chunk c leaves rank 0 in step c, and each other rank one step after arriving.
Schedule ring_broadcast(int n, int direction) {
  Schedule schedule = empty_schedule(n, n);
  for (int step = 0; step < 2 * n - 2; ++step) {
    Step& transfers = schedule.steps.emplace_back();
    for (int at = 0; at + 1 < n; ++at) {
      const int chunk = step - at;
      if (chunk < 0 || chunk >= n) continue;
      transfers.push_back({rank_at(direction * at, n),
                           rank_at(direction * (at + 1), n), chunk});
    }
  }
  return schedule;
}

Schedule permute(int n) {
  Schedule schedule = empty_schedule(n, n);
  if (n == 1) return schedule;
  Step& step = schedule.steps.emplace_back();
  for (int rank = 0; rank < n; ++rank) {
    step.push_back({rank, rank_at(rank + 1, n), rank});
  }
  return schedule;
}

template <int kDirection>
Schedule one_way_schedule(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  if (kind == CollectiveKind::Broadcast) return ring_broadcast(n, kDirection);
  if (kind == CollectiveKind::Permute) return permute(n);
  const bool gathers = kind == CollectiveKind::AllGather;
  Schedule schedule = rotation(n, kDirection, gathers ? 0 : 1, !gathers);
  if (kind == CollectiveKind::AllReduce) {
    append(schedule, rotation(n, kDirection, 0, false));
  }
  return schedule;
}

// Returns what a rank sends: in a gather, all shards except the next rank's; in
// a reduction, all except its own; in a broadcast, the payload, unless it is
// the last rank.
template <int kDirection>
int64_t one_way_sent(CollectiveKind kind, const Ranks& ranks, int rank,
                     int64_t payload) {
  const int n = ranks.count;
  const EvenCut cut{payload, n};
  const int64_t next = cut.size(rank + kDirection);
  const int64_t own = cut.size(rank);
  switch (kind) {
    case CollectiveKind::AllGather:
      return payload - next;
    case CollectiveKind::ReduceScatter:
      return payload - own;
    case CollectiveKind::AllReduce:
      return payload - own + payload - next;
    case CollectiveKind::Permute:
      return n == 1 ? 0 : payload;
    default:
      return wrap(rank + kDirection, n) == 0 ? 0 : payload;
  }
}

bool supports_up(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind != CollectiveKind::AllToAll;
}

bool supports_down(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind != CollectiveKind::AllToAll && kind != CollectiveKind::Permute;
}

int hops_up(int n) { return n / 2; }
int hops_down(int n) { return (n - 1) / 2; }

Schedule gather_both_ways(int n) {
  Schedule schedule = empty_schedule(n, n);
  for (int hop = 0; hop < hops_up(n); ++hop) {
    Step& step = schedule.steps.emplace_back();
    for (int rank = 0; rank < n; ++rank) {
      step.push_back({rank, rank_at(rank + 1, n), rank_at(rank - hop, n)});
      if (hop >= hops_down(n)) continue;
      step.push_back({rank, rank_at(rank - 1, n), rank_at(rank + hop, n)});
    }
  }
  return schedule;
}

// Returns a broadcast as a pipeline of n chunks in each direction.
Schedule broadcast_both_ways(int n) {
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

// Adds what `source` has for `count` ranks from `first` on, as at most two
// transfers of neighbouring chunks.
void push_parts(Step& step, int rank, int target, int n, int source, int first,
                int count) {
  const int straight = std::min(count, n - first);
  step.push_back({rank, target, source * n + first, straight});
  if (count > straight) {
    step.push_back({rank, target, source * n, count - straight});
  }
}

// After h hops, a rank passes on what came from h ranks away and goes further.
Schedule ring_all_to_all(int n) {
  Schedule schedule = empty_schedule(n, int64_t{n} * n);
  for (int hop = 0; hop < hops_up(n); ++hop) {
    Step& step = schedule.steps.emplace_back();
    for (int rank = 0; rank < n; ++rank) {
      push_parts(step, rank, rank_at(rank + 1, n), n, rank_at(rank - hop, n),
                 rank_at(rank + 1, n), hops_up(n) - hop);
      if (hop >= hops_down(n)) continue;
      push_parts(step, rank, rank_at(rank - 1, n), n, rank_at(rank + hop, n),
                 rank_at(rank + hop - hops_down(n), n), hops_down(n) - hop);
    }
  }
  return schedule;
}

bool bidirectional_supports(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind != CollectiveKind::Permute;
}

Schedule bidirectional_schedule(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  if (kind == CollectiveKind::AllGather) return gather_both_ways(n);
  if (kind == CollectiveKind::Broadcast) return broadcast_both_ways(n);
  if (kind == CollectiveKind::AllToAll) return ring_all_to_all(n);
  Schedule schedule = backwards(gather_both_ways(n));
  if (kind == CollectiveKind::AllReduce) append(schedule, gather_both_ways(n));
  return schedule;
}

// Returns what a rank sends: what is for the rank d up passes through it from
// n / 2 - d + 1 sources.
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

// Returns the copies of the whole that a rank sends: one each way, unless the
// way ends at or before `rank`.
int64_t copies_from(int rank, int n) {
  if (rank == 0) return (hops_up(n) > 0 ? 1 : 0) + (hops_down(n) > 0 ? 1 : 0);
  return rank == hops_up(n) || rank == n - hops_down(n) ? 0 : 1;
}

int64_t ring_sent(CollectiveKind kind, const Ranks& ranks, int rank,
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

// Returns the copies sent: the shorter ways from one rank to all others add up
// to n n / 4.
int64_t ring_copies(CollectiveKind kind, const Ranks& ranks) {
  const int64_t n = ranks.count;
  return kind == CollectiveKind::AllToAll ? n * n / 4
                                          : least_copies(kind, ranks.count);
}

// Returns the chunk of one half. The ring moves whole shards; a broadcast is
// cut into halves instead, and each half into n chunks.
int half_of(CollectiveKind kind, int n, int chunk, int half) {
  return kind == CollectiveKind::Broadcast ? half * n + chunk
                                           : 2 * chunk + half;
}

Schedule split_schedule(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  Schedule schedule = empty_schedule(n, 2 * int64_t{n});
  const Schedule ways[] = {one_way_schedule<kUp>(kind, ranks),
                           one_way_schedule<kDown>(kind, ranks)};
  schedule.steps.resize(ways[0].steps.size());
  for (const int half : {0, 1}) {
    for (size_t step = 0; step < schedule.steps.size(); ++step) {
      for (Transfer t : ways[half].steps[step]) {
        t.first_chunk = half_of(kind, n, t.first_chunk, half);
        schedule.steps[step].push_back(t);
      }
    }
  }
  return schedule;
}

// Returns the size of the first or second half of a rank's shard.
int64_t half_size(CollectiveKind kind, int n, int64_t payload, int64_t rank,
                  int half) {
  if (kind == CollectiveKind::AllReduce) {
    return EvenCut{payload, 2 * int64_t{n}}.size(2 * rank + half);
  }
  return EvenCut{EvenCut{payload, n}.size(rank), 2}.size(half);
}

int64_t split_sent(CollectiveKind kind, const Ranks& ranks, int rank,
                   int64_t payload) {
  const int n = ranks.count;
  const auto half = [&](int64_t of, int which) {
    return half_size(kind, n, payload, of, which);
  };
  const int64_t reduced = payload - half(rank, 0) - half(rank, 1);
  const int64_t gathered = payload - half(rank + 1, 0) - half(rank - 1, 1);
  switch (kind) {
    case CollectiveKind::AllGather:
      return gathered;
    case CollectiveKind::ReduceScatter:
      return reduced;
    case CollectiveKind::AllReduce:
      return reduced + gathered;
    default: {
      const EvenCut halves{payload, 2};
      return (wrap(rank + 1, n) == 0 ? 0 : halves.size(0)) +
             (wrap(rank - 1, n) == 0 ? 0 : halves.size(1));
    }
  }
}

}  // namespace

const Algorithm kRing = {"ring",
                         "each rank sends to the next one around the ring",
                         supports_up, one_way_schedule<kUp>, one_way_sent<kUp>};
const Algorithm kRingDown = {"ring-down", "the ring in the other direction",
                             supports_down, one_way_schedule<kDown>,
                             one_way_sent<kDown>};

// Bidirectional ring: both directions of every link are used in every step, so
// that an all-gather takes half the steps of a ring. Each shard goes up for
// n / 2 ranks and at the same time down for (n - 1) / 2, both rounded down. The
// shards arrive as in async_gather_bidirectional of
// xlstm_jax.distributed.tensor_parallel, which uses the directions in turn.
//
// An all-to-all goes the shorter way round for every pair of ranks. The ranks
// in between pass its chunks on, as on a torus, so that it sends more than an
// algorithm in which every rank can send directly.

const Algorithm kBidirectionalRing = {
    "bidirectional-ring",
    "both directions at once: half the steps of a ring",
    bidirectional_supports,
    bidirectional_schedule,
    ring_sent,
    ring_copies};

// Split ring: every shard is cut into two halves, of which the first goes up
// one ring and the second down another at the same time. It takes as many steps
// as a ring, with half the bytes in each direction of a link, as
// async_gather_split and async_scatter_split of
// xlstm_jax.distributed.tensor_parallel do.

const Algorithm kSplitRing = {"split-ring",
                              "halves of each shard in opposite directions",
                              supports_down, split_schedule, split_sent};

}  // namespace shardplan
