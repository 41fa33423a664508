// SPDX-License-Identifier: Apache-2.0
// Split ring: every shard is cut in two halves, of which the first goes up a
// ring and the second down another at the same time. As many steps as a ring,
// with half the bytes on each direction of a link; async_gather_split and
// async_scatter_split of xlstm_jax.distributed.tensor_parallel.
#include "comm/algorithms/algorithms.h"
#include "comm/even_cut.h"

namespace shardplan {
namespace {

// The ring moves whole shards; a broadcast is cut in halves instead, and each
// half into n chunks.
int half_of(CollectiveKind kind, int n, int chunk, int half) {
  return kind == CollectiveKind::Broadcast ? half * n + chunk
                                           : 2 * chunk + half;
}

Schedule schedule_of(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  const Schedule up = kRing.schedule(kind, ranks);
  const Schedule down = kRingDown.schedule(kind, ranks);
  Schedule schedule = empty_schedule(n, 2 * int64_t{n});
  for (size_t step = 0; step < up.steps.size(); ++step) {
    Step& both = schedule.steps.emplace_back();
    for (Transfer t : up.steps[step]) {
      t.first_chunk = half_of(kind, n, t.first_chunk, 0);
      both.push_back(t);
    }
    for (Transfer t : down.steps[step]) {
      t.first_chunk = half_of(kind, n, t.first_chunk, 1);
      both.push_back(t);
    }
  }
  return schedule;
}

bool supports(CollectiveKind kind, const Ranks& ranks) {
  return kRingDown.supports(kind, ranks);
}

// The first or second half of the shard of a rank.
int64_t half_size(CollectiveKind kind, int n, int64_t payload, int64_t rank,
                  int half) {
  if (kind == CollectiveKind::AllReduce) {
    return EvenCut{payload, 2 * int64_t{n}}.size(2 * rank + half);
  }
  return EvenCut{EvenCut{payload, n}.size(rank), 2}.size(half);
}

int64_t sent(CollectiveKind kind, const Ranks& ranks, int rank,
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

const Algorithm kSplitRing = {"split-ring",
                              "halves of each shard in opposite directions",
                              supports, schedule_of, sent};

}  // namespace shardplan
