// SPDX-License-Identifier: Apache-2.0
// Schedule: a collective algorithm as steps of transfers between ranks.
//
// A pure function of the number of ranks: the same schedule is executed on
// buffers, priced and drawn. Every rank has one slot per chunk; a slot that a
// rank does not hold is empty. A transfer carries chunks of its source to the
// same slots of its target, which keeps them or adds its own to them.
//
// Invariants: within a step, no rank sends a chunk that it also receives, so
// that every read sees the state before the step; where a step carries a chunk
// to one target several times, they are added in the order listed.
//
// Which chunks ranks begin and end with, for n ranks and q pieces per shard:
//   all-gather      n q chunks; rank r begins with r q .. r q + q - 1 and ends
//                   with all
//   reduce-scatter  n q chunks; all begin with all, rank r ends with the sums
//                   of r q .. r q + q - 1
//   all-reduce      any number; all begin and end with all, summed
//   all-to-all      n n q chunks; (s n + t) q + i goes from rank s to rank t
//   permute         n q chunks; those of rank r go to rank r + 1, modulo n
//   broadcast       any number; rank 0 begins with all, everyone ends with all
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

enum class CollectiveKind : uint8_t {
  AllGather,
  ReduceScatter,
  AllReduce,
  AllToAll,
  Permute,
  Broadcast,
};
inline constexpr int kCollectiveKinds = 6;
std::string_view collective_name(CollectiveKind kind);  // "all-gather"

struct Transfer {
  int source = 0;
  int target = 0;
  int first_chunk = 0;
  int chunk_count = 1;
  bool reduce = false;  // the target's own are added: arriving + own

  bool operator==(const Transfer&) const = default;
};
using Step = std::vector<Transfer>;

struct Schedule {
  int ranks = 1;
  int chunks = 0;
  std::vector<Step> steps;
};

// Executes a schedule on slots[rank][chunk]. `add(arriving, own)` gives the
// sum, in this order of operands; T() is an empty slot.
template <typename T, typename Add>
void execute(const Schedule& schedule, std::vector<std::vector<T>>& slots,
             Add add) {
  for (const Step& step : schedule.steps) {
    for (const Transfer& t : step) {
      for (int c = t.first_chunk; c < t.first_chunk + t.chunk_count; ++c) {
        T& own = slots[t.target][c];
        const T& arriving = slots[t.source][c];
        own = t.reduce ? add(arriving, own) : arriving;
      }
    }
  }
}

// What a schedule sends, for chunks of the given sizes in bytes.
struct Traffic {
  int64_t total = 0;    // bytes over all ranks
  int64_t busiest = 0;  // bytes that the busiest rank sends
  int64_t steps = 0;    // that carry anything
};
Traffic traffic(const Schedule& schedule,
                const std::vector<int64_t>& chunk_bytes);

}  // namespace shardplan
