// SPDX-License-Identifier: Apache-2.0
// Pairwise exchange: in step k, every rank sends one partner directly what is
// meant for it, so that nothing is passed on. The partner is rank xor k if n is
// a power of two, so that the two exchange, otherwise rank + k. This takes
// n - 1 steps; it is the long-message all-to-all and reduce-scatter of Thakur,
// Rabenseifner and Gropp, "Optimization of Collective Communication Operations
// in MPICH", 2005.
#include <bit>
#include <utility>

#include "comm/algorithms/algorithms.h"
#include "comm/collective.h"

namespace shardplan {
namespace {

int partner_of(int rank, int step, int n) {
  if (std::has_single_bit(static_cast<unsigned>(n))) return rank ^ step;
  return static_cast<int>(wrap(int64_t{rank} + step, n));
}

// Returns the chunk of `rank` that is for `partner`.
int chunk_for(CollectiveKind kind, int rank, int partner, int n) {
  if (kind == CollectiveKind::AllToAll) return rank * n + partner;
  return kind == CollectiveKind::AllGather ? rank : partner;
}

Schedule exchange(CollectiveKind kind, int n) {
  const bool all = kind == CollectiveKind::AllToAll;
  Schedule schedule = empty_schedule(n, all ? int64_t{n} * n : n);
  for (int k = 1; k < n; ++k) {
    Step& step = schedule.steps.emplace_back();
    for (int rank = 0; rank < n; ++rank) {
      const int partner = partner_of(rank, k, n);
      step.push_back({rank, partner, chunk_for(kind, rank, partner, n), 1,
                      kind == CollectiveKind::ReduceScatter});
    }
  }
  return schedule;
}

bool pairwise_supports(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind != CollectiveKind::Permute && kind != CollectiveKind::Broadcast;
}

Schedule pairwise_schedule(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  if (kind != CollectiveKind::AllReduce) return exchange(kind, n);
  Schedule schedule = exchange(CollectiveKind::ReduceScatter, n);
  append(schedule, exchange(CollectiveKind::AllGather, n));
  return schedule;
}

int64_t pairwise_sent(CollectiveKind kind, const Ranks& ranks, int rank,
                      int64_t payload) {
  const int64_t own = EvenCut{payload, ranks.count}.size(rank);
  const int64_t gathered = own * (ranks.count - 1);
  if (kind == CollectiveKind::AllGather) return gathered;
  return payload - own + (kind == CollectiveKind::AllReduce ? gathered : 0);
}

Schedule in_one_step(const Schedule& schedule) {
  Schedule result = empty_schedule(schedule.ranks, schedule.chunks);
  Step all;
  for (const Step& step : schedule.steps) {
    all.insert(all.end(), step.begin(), step.end());
  }
  if (!all.empty()) result.steps.push_back(std::move(all));
  return result;
}

Schedule direct_broadcast(int n) {
  Schedule schedule = empty_schedule(n, 1);
  if (n == 1) return schedule;
  Step& step = schedule.steps.emplace_back();
  for (int rank = 1; rank < n; ++rank) step.push_back({0, rank, 0});
  return schedule;
}

bool direct_supports(CollectiveKind /*kind*/, const Ranks& /*ranks*/) {
  return true;
}

Schedule direct_schedule(CollectiveKind kind, const Ranks& ranks) {
  if (kind == CollectiveKind::Permute) return kRing.schedule(kind, ranks);
  if (kind == CollectiveKind::Broadcast) return direct_broadcast(ranks.count);
  if (kind != CollectiveKind::AllReduce) {
    return in_one_step(kPairwise.schedule(kind, ranks));
  }
  Schedule schedule = direct_schedule(CollectiveKind::ReduceScatter, ranks);
  append(schedule, direct_schedule(CollectiveKind::AllGather, ranks));
  return schedule;
}

int64_t direct_sent(CollectiveKind kind, const Ranks& ranks, int rank,
                    int64_t payload) {
  if (kind == CollectiveKind::Broadcast) {
    return rank == 0 ? payload * (ranks.count - 1) : 0;
  }
  return kind == CollectiveKind::Permute
             ? kRing.sent(kind, ranks, rank, payload)
             : kPairwise.sent(kind, ranks, rank, payload);
}

}  // namespace

const Algorithm kPairwise = {
    "pairwise", "each rank sends to one partner after another",
    pairwise_supports, pairwise_schedule, pairwise_sent};

// Direct: every rank sends to all others in the same step, as a full crossbar
// allows. It does at once what pairwise exchange does step by step; sums are
// added in that order.

const Algorithm kDirect = {"direct",
                           "every rank sends to every other in one step",
                           direct_supports, direct_schedule, direct_sent};

}  // namespace shardplan
