// SPDX-License-Identifier: Apache-2.0
// Binary tree: rank r has the children 2 r + 1 and 2 r + 2, and sends all it
// has to both at once. A broadcast goes down from rank 0 in as many steps as
// the tree is deep; an all-reduce goes up first, sums to the parents. Few
// steps, no pipeline: for small payloads.
#include <algorithm>
#include <utility>

#include "comm/algorithms/algorithms.h"
#include "comm/even_cut.h"

namespace shardplan {
namespace {

Schedule broadcast(int n) {
  Schedule schedule = empty_schedule(n, 1);
  // The ranks of one level are neighbours: 0, then 1 and 2, then 3 to 6.
  for (int64_t first = 0; 2 * first + 1 < n; first = 2 * first + 1) {
    Step step;
    for (int64_t parent = first; parent <= 2 * first; ++parent) {
      for (const int64_t child : {2 * parent + 1, 2 * parent + 2}) {
        if (child >= n) continue;
        step.push_back({static_cast<int>(parent), static_cast<int>(child), 0});
      }
    }
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

bool supports(CollectiveKind kind, const Ranks& /*ranks*/) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::Broadcast;
}

Schedule schedule_of(CollectiveKind kind, const Ranks& ranks) {
  const Schedule down = broadcast(ranks.count);
  if (kind == CollectiveKind::Broadcast) return down;
  Schedule schedule = backwards(down);
  append(schedule, down);
  return schedule;
}

int64_t sent(CollectiveKind kind, const Ranks& ranks, int rank,
             int64_t payload) {
  const int64_t children =
      std::clamp(ranks.count - (2 * int64_t{rank} + 1), int64_t{0}, int64_t{2});
  const bool up = kind == CollectiveKind::AllReduce && rank > 0;
  return payload * (children + (up ? 1 : 0));
}

}  // namespace

const Algorithm kBinaryTree = {"binary-tree",
                               "sums up a tree, results down: log2(n) steps of "
                               "the whole payload",
                               supports, schedule_of, sent};

}  // namespace shardplan
