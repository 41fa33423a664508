// SPDX-License-Identifier: Apache-2.0
// Direct: every rank sends to all others in the same step, as a full crossbar
// allows. What pairwise exchange does one after the other, at once; sums are
// added in that order.
#include <utility>

#include "comm/algorithms/algorithms.h"

namespace shardplan {
namespace {

Schedule in_one_step(const Schedule& schedule) {
  Schedule result = empty_schedule(schedule.ranks, schedule.chunks);
  Step all;
  for (const Step& step : schedule.steps) {
    all.insert(all.end(), step.begin(), step.end());
  }
  if (!all.empty()) result.steps.push_back(std::move(all));
  return result;
}

Schedule broadcast(int n) {
  Schedule schedule = empty_schedule(n, 1);
  Step step;
  for (int rank = 1; rank < n; ++rank) step.push_back({0, rank, 0});
  if (n > 1) schedule.steps.push_back(std::move(step));
  return schedule;
}

bool supports(CollectiveKind /*kind*/, const Ranks& /*ranks*/) { return true; }

Schedule schedule_of(CollectiveKind kind, const Ranks& ranks) {
  if (kind == CollectiveKind::Permute) return kRing.schedule(kind, ranks);
  if (kind == CollectiveKind::Broadcast) return broadcast(ranks.count);
  if (kind != CollectiveKind::AllReduce) {
    return in_one_step(kPairwise.schedule(kind, ranks));
  }
  Schedule schedule = schedule_of(CollectiveKind::ReduceScatter, ranks);
  append(schedule, schedule_of(CollectiveKind::AllGather, ranks));
  return schedule;
}

int64_t sent(CollectiveKind kind, const Ranks& ranks, int rank,
             int64_t payload) {
  if (kind == CollectiveKind::Broadcast) {
    return rank == 0 ? payload * (ranks.count - 1) : 0;
  }
  return kind == CollectiveKind::Permute
             ? kRing.sent(kind, ranks, rank, payload)
             : kPairwise.sent(kind, ranks, rank, payload);
}

}  // namespace

const Algorithm kDirect = {"direct", "everything to everyone in one step",
                           supports, schedule_of, sent};

}  // namespace shardplan
