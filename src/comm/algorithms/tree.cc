// SPDX-License-Identifier: Apache-2.0
// Binary tree: rank r has the children 2 r + 1 and 2 r + 2, and sends all it
// has to both at once. A broadcast goes down from rank 0 in as many steps as
// the tree is deep; an all-reduce first sums up to the root. There are few
// steps and no pipeline, which suits small payloads.
#include <algorithm>
#include <bit>
#include <utility>

#include "comm/algorithms/algorithms.h"
#include "comm/collective.h"

namespace shardplan {
namespace {

Schedule tree_broadcast(int n) {
  Schedule schedule = empty_schedule(n, 1);
  // The ranks of one level are neighbours: 0, then 1 and 2, then 3 to 6.
  for (int64_t first = 0; 2 * first + 1 < n; first = 2 * first + 1) {
    Step& step = schedule.steps.emplace_back();
    for (int64_t parent = first; parent <= 2 * first; ++parent) {
      for (const int64_t child : {2 * parent + 1, 2 * parent + 2}) {
        if (child >= n) continue;
        step.push_back({static_cast<int>(parent), static_cast<int>(child), 0});
      }
    }
  }
  return schedule;
}

bool binary_tree_supports(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::Broadcast;
}

Schedule binary_tree_schedule(CollectiveKind kind, const Ranks& ranks) {
  const Schedule down = tree_broadcast(ranks.count);
  if (kind == CollectiveKind::Broadcast) return down;
  Schedule schedule = backwards(down);
  append(schedule, down);
  return schedule;
}

int64_t binary_tree_sent(CollectiveKind kind, const Ranks& ranks, int rank,
                         int64_t payload) {
  const int64_t children =
      std::clamp(ranks.count - (2 * int64_t{rank} + 1), int64_t{0}, int64_t{2});
  const bool up = kind == CollectiveKind::AllReduce && rank > 0;
  return payload * (children + (up ? 1 : 0));
}

// Returns the largest power of two that is at most n.
int core_of(int n) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
}

// Returns an all-gather among the first `core` of n ranks.
Schedule doubling_all_gather(int n, int core) {
  Schedule schedule = empty_schedule(n, core);
  for (int distance = 1; distance < core; distance *= 2) {
    Step& step = schedule.steps.emplace_back();
    for (int rank = 0; rank < core; ++rank) {
      const int block = rank & ~(distance - 1);
      step.push_back({rank, rank ^ distance, block, distance});
    }
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
  const Schedule gather = doubling_all_gather(n, core);
  append(schedule, backwards(gather));
  append(schedule, gather);
  if (n > core) schedule.steps.push_back(std::move(unfold));
  return schedule;
}

bool halving_doubling_supports(CollectiveKind kind, const Ranks& ranks) {
  const bool even = core_of(ranks.count) == ranks.count;
  return kind == CollectiveKind::AllReduce ||
         (even && (kind == CollectiveKind::AllGather ||
                   kind == CollectiveKind::ReduceScatter));
}

Schedule halving_doubling_schedule(CollectiveKind kind, const Ranks& ranks) {
  const int n = ranks.count;
  if (kind == CollectiveKind::AllReduce) return all_reduce(n);
  const Schedule gather = doubling_all_gather(n, n);
  return kind == CollectiveKind::AllGather ? gather : backwards(gather);
}

int64_t halving_doubling_sent(CollectiveKind kind, const Ranks& ranks, int rank,
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

const Algorithm kBinaryTree = {
    "binary-tree",
    "reduce up a tree, broadcast down: log2(n) steps of the whole payload",
    binary_tree_supports, binary_tree_schedule, binary_tree_sent};

// Recursive halving and doubling, for powers of two. In an all-gather, ranks
// exchange all they have with the rank at distance 1, then 2, 4, ..., so that
// what they have doubles; a reduce-scatter is the reverse. Both take log2(n)
// steps and send no more bytes than a ring. An all-reduce is both in turn
// (Rabenseifner).
//
// For other numbers of ranks, an all-reduce first adds the values of the
// surplus ranks to those of the first ranks, and sends them the result at the
// end: Thakur, Rabenseifner and Gropp, "Optimization of Collective
// Communication Operations in MPICH", 2005, section 4.5, except for which ranks
// are paired.

const Algorithm kHalvingDoubling = {
    "halving-doubling", "partners at distances 1, 2, 4, ...: log2(n) steps",
    halving_doubling_supports, halving_doubling_schedule,
    halving_doubling_sent};

}  // namespace shardplan
