// SPDX-License-Identifier: Apache-2.0
// Hierarchical: one collective within the groups of the fast axis, another over
// the slow axis, so that the slow one carries each byte once per group. Rank r
// is at place r % inner of group r / inner.
//
// A reduce-scatter uses the fast axis first, so that 1 / inner of the payload
// is left for the slow one; an all-gather is the reverse; an all-reduce is both
// in turn. An all-to-all first brings everything to the place of its target,
// then to the group of its target. These collectives are rings, or pairwise for
// all-to-all.
#include <functional>
#include <utility>

#include "comm/algorithms/algorithms.h"
#include "comm/collective.h"

namespace shardplan {
namespace {

struct Grid {
  int groups = 1;
  int inner = 1;

  explicit Grid(const Ranks& ranks)
      : groups(ranks.count / ranks.inner), inner(ranks.inner) {}
  int count() const { return groups * inner; }
  int rank(int group, int place) const { return group * inner + place; }
};

struct Run {
  int first = 0;
  int count = 1;
};

// A collective of fewer ranks, run by several sets of ranks at the same time.
struct Phase {
  Schedule small;
  int sets = 1;
  std::function<int(int set, int rank)> rank_of;
  // Returns the chunks that one chunk of the small schedule stands for.
  std::function<std::vector<Run>(int set, int chunk)> chunks_of;
};

void append_phase(Schedule& schedule, const Phase& phase) {
  for (const Step& small : phase.small.steps) {
    Step& step = schedule.steps.emplace_back();
    for (int set = 0; set < phase.sets; ++set) {
      for (const Transfer& t : small) {
        for (const Run& run : phase.chunks_of(set, t.first_chunk)) {
          step.push_back({phase.rank_of(set, t.source),
                          phase.rank_of(set, t.target), run.first, run.count,
                          t.reduce});
        }
      }
    }
  }
}

// over_groups() is a ring over all groups at each place; within_groups() is a
// ring within each group that moves the chunks of a place in all groups.
Phase over_groups(CollectiveKind kind, const Grid& grid) {
  return {kRing.schedule(kind, {grid.groups}), grid.inner,
          [grid](int place, int group) { return grid.rank(group, place); },
          [grid](int place, int group) {
            return std::vector<Run>{{grid.rank(group, place)}};
          }};
}

Phase within_groups(CollectiveKind kind, const Grid& grid) {
  return {kRing.schedule(kind, {grid.inner}), grid.groups,
          [grid](int group, int place) { return grid.rank(group, place); },
          [grid](int /*group*/, int place) {
            std::vector<Run> runs;
            for (int group = 0; group < grid.groups; ++group) {
              runs.push_back({grid.rank(group, place)});
            }
            return runs;
          }};
}

Schedule all_gather(const Grid& grid) {
  Schedule schedule = empty_schedule(grid.count(), grid.count());
  append_phase(schedule, over_groups(CollectiveKind::AllGather, grid));
  append_phase(schedule, within_groups(CollectiveKind::AllGather, grid));
  return schedule;
}

Schedule reduce_scatter(const Grid& grid) {
  Schedule schedule = empty_schedule(grid.count(), grid.count());
  append_phase(schedule, within_groups(CollectiveKind::ReduceScatter, grid));
  append_phase(schedule, over_groups(CollectiveKind::ReduceScatter, grid));
  return schedule;
}

// Returns a broadcast along the first places of the groups, then within each.
Schedule broadcast(const Grid& grid) {
  Schedule schedule = empty_schedule(grid.count(), grid.count());
  append_phase(schedule,
               {kRing.schedule(CollectiveKind::Broadcast, {grid.groups}), 1,
                [grid](int, int group) { return grid.rank(group, 0); },
                [grid](int, int chunk) {
                  return std::vector<Run>{{chunk * grid.inner, grid.inner}};
                }});
  append_phase(
      schedule,
      {kRing.schedule(CollectiveKind::Broadcast, {grid.inner}), grid.groups,
       [grid](int group, int place) { return grid.rank(group, place); },
       [grid](int, int chunk) {
         return std::vector<Run>{{chunk * grid.groups, grid.groups}};
       }});
  return schedule;
}

Schedule all_to_all(const Grid& grid) {
  const int n = grid.count();
  Schedule schedule = empty_schedule(n, int64_t{n} * n);
  // In the small schedule of k ranks, chunk s k + t goes from s to t.
  append_phase(
      schedule,
      {kPairwise.schedule(CollectiveKind::AllToAll, {grid.inner}), grid.groups,
       [grid](int group, int place) { return grid.rank(group, place); },
       [grid, n](int group, int chunk) {
         const int source = grid.rank(group, chunk / grid.inner);
         std::vector<Run> runs;
         for (int to = 0; to < grid.groups; ++to) {
           runs.push_back({source * n + grid.rank(to, chunk % grid.inner)});
         }
         return runs;
       }});
  append_phase(
      schedule,
      {kPairwise.schedule(CollectiveKind::AllToAll, {grid.groups}), grid.inner,
       [grid](int place, int group) { return grid.rank(group, place); },
       [grid, n](int place, int chunk) {
         const int target = grid.rank(chunk % grid.groups, place);
         std::vector<Run> runs;
         for (int from = 0; from < grid.inner; ++from) {
           runs.push_back({grid.rank(chunk / grid.groups, from) * n + target});
         }
         return runs;
       }});
  return schedule;
}

bool supports(CollectiveKind kind, const Ranks& ranks) {
  return kind != CollectiveKind::Permute && 1 < ranks.inner &&
         ranks.inner < ranks.count && ranks.count % ranks.inner == 0;
}

Schedule schedule_of(CollectiveKind kind, const Ranks& ranks) {
  const Grid grid(ranks);
  if (kind == CollectiveKind::AllGather) return all_gather(grid);
  if (kind == CollectiveKind::Broadcast) return broadcast(grid);
  if (kind == CollectiveKind::AllToAll) return all_to_all(grid);
  Schedule schedule = reduce_scatter(grid);
  if (kind == CollectiveKind::AllReduce) append(schedule, all_gather(grid));
  return schedule;
}

// Returns the size of the chunks of one place in all groups.
int64_t of_place(const EvenCut& cut, const Grid& grid, int place) {
  int64_t sum = 0;
  for (int group = 0; group < grid.groups; ++group) {
    sum += cut.size(grid.rank(group, place % grid.inner));
  }
  return sum;
}

int64_t sent(CollectiveKind kind, const Ranks& ranks, int rank,
             int64_t payload) {
  const Grid grid(ranks);
  const int group = rank / grid.inner;
  const int place = rank % grid.inner;
  const EvenCut cut{payload, ranks.count};
  if (kind == CollectiveKind::Broadcast) {
    const bool across = place == 0 && group + 1 < grid.groups;
    const bool within = place + 1 < grid.inner;
    return payload * ((across ? 1 : 0) + (within ? 1 : 0));
  }
  const int64_t own_place = of_place(cut, grid, place);
  if (kind == CollectiveKind::AllToAll) {
    return payload - own_place + grid.inner * (own_place - cut.size(rank));
  }
  // When it gathers, each ring leaves out the next rank.
  const int64_t gathered = own_place - cut.size(rank + grid.inner) + payload -
                           of_place(cut, grid, place + 1);
  const int64_t reduced = payload - cut.size(rank);
  if (kind == CollectiveKind::AllGather) return gathered;
  return reduced + (kind == CollectiveKind::AllReduce ? gathered : 0);
}

// Returns the copies sent: an all-to-all sends all but 1 / inner once, and all
// but 1 / groups again.
int64_t copies(CollectiveKind kind, const Ranks& ranks) {
  const Grid grid(ranks);
  return kind == CollectiveKind::AllToAll
             ? 2 * int64_t{ranks.count} - grid.inner - grid.groups
             : least_copies(kind, ranks.count);
}

}  // namespace

const Algorithm kHierarchical = {
    "hierarchical", "within the fast axis, then across the slow one",
    supports,       schedule_of,
    sent,           copies};

}  // namespace shardplan
