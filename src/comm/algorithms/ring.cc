// SPDX-License-Identifier: Apache-2.0
// Rings: every rank sends to the next one only, rank + 1 (up) or rank - 1.
//
// In an all-gather a rank passes on what it received last, beginning with its
// own shard; n - 1 steps. In a reduce-scatter the chunk of rank c begins at
// c + 1 and comes to c last, each rank on the way adding its own part: the
// association of async_scatter in xlstm_jax.distributed.tensor_parallel. An
// all-reduce is both in turn, in 2 (n - 1) steps (Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009). A broadcast is a pipeline of n chunks from rank 0 on.
#include "comm/algorithms/algorithms.h"
#include "comm/even_cut.h"

namespace shardplan {
namespace {

constexpr int kUp = 1;
constexpr int kDown = -1;

// n - 1 steps in which every rank sends a chunk to its neighbour, in each step
// that of one rank further back; the first is `lag` ranks back.
Schedule rotation(int n, int direction, int lag, bool reduce) {
  Schedule schedule = empty_schedule(n, n);
  for (int step = 0; step + 1 < n; ++step) {
    Step transfers;
    for (int rank = 0; rank < n; ++rank) {
      const int64_t chunk = wrap(rank - direction * (step + lag), n);
      transfers.push_back({rank, static_cast<int>(wrap(rank + direction, n)),
                           static_cast<int>(chunk), 1, reduce});
    }
    schedule.steps.push_back(std::move(transfers));
  }
  return schedule;
}

Schedule all_gather(int n, int direction) {
  return rotation(n, direction, 0, false);
}

Schedule reduce_scatter(int n, int direction) {
  return rotation(n, direction, 1, true);
}

// Chunk c leaves rank 0 in step c, and each other rank one step after it came.
Schedule broadcast(int n, int direction) {
  Schedule schedule = empty_schedule(n, n);
  for (int step = 0; step < 2 * n - 2; ++step) {
    Step transfers;
    for (int at = 0; at + 1 < n; ++at) {
      const int chunk = step - at;
      if (chunk < 0 || chunk >= n) continue;
      transfers.push_back({static_cast<int>(wrap(direction * at, n)),
                           static_cast<int>(wrap(direction * (at + 1), n)),
                           chunk});
    }
    schedule.steps.push_back(std::move(transfers));
  }
  return schedule;
}

Schedule permute(int n) {
  Schedule schedule = empty_schedule(n, n);
  if (n == 1) return schedule;
  Step& step = schedule.steps.emplace_back();
  for (int rank = 0; rank < n; ++rank) {
    step.push_back({rank, static_cast<int>(wrap(rank + 1, n)), rank});
  }
  return schedule;
}

Schedule schedule_of(CollectiveKind kind, int n, int direction) {
  if (kind == CollectiveKind::AllGather) return all_gather(n, direction);
  if (kind == CollectiveKind::Broadcast) return broadcast(n, direction);
  if (kind == CollectiveKind::Permute) return permute(n);
  Schedule schedule = reduce_scatter(n, direction);
  if (kind == CollectiveKind::AllReduce) {
    append(schedule, all_gather(n, direction));
  }
  return schedule;
}

// A rank gathers by sending all shards but that of the next rank, reduces by
// sending all but its own, and broadcasts unless it is the last one.
int64_t sent_by(CollectiveKind kind, int n, int rank, int64_t payload,
                int direction) {
  const EvenCut cut{payload, n};
  const int64_t next = cut.size(rank + direction);
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
      return wrap(rank + direction, n) == 0 ? 0 : payload;
  }
}

bool supports_up(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind != CollectiveKind::AllToAll;
}

bool supports_down(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind != CollectiveKind::AllToAll && kind != CollectiveKind::Permute;
}

Schedule schedule_up(CollectiveKind kind, const Ranks& ranks) {
  return schedule_of(kind, ranks.count, kUp);
}

Schedule schedule_down(CollectiveKind kind, const Ranks& ranks) {
  return schedule_of(kind, ranks.count, kDown);
}

int64_t sent_up(CollectiveKind kind, const Ranks& ranks, int rank,
                int64_t payload) {
  return sent_by(kind, ranks.count, rank, payload, kUp);
}

int64_t sent_down(CollectiveKind kind, const Ranks& ranks, int rank,
                  int64_t payload) {
  return sent_by(kind, ranks.count, rank, payload, kDown);
}

}  // namespace

const Algorithm kRing = {
    "ring", "each rank sends to the next one up, all the way round",
    supports_up, schedule_up, sent_up};
const Algorithm kRingDown = {"ring-down", "the ring in the other direction",
                             supports_down, schedule_down, sent_down};

}  // namespace shardplan
