// SPDX-License-Identifier: Apache-2.0
// Collectives: communication algorithms as schedules of transfers between
// ranks, and the bytes that they send.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// Schedule: a collective algorithm as steps of transfers between ranks.
//
// A schedule depends on the ranks alone: the same schedule is executed on
// buffers, priced and drawn. Every rank has one slot per chunk; a slot is empty
// if the rank does not hold the chunk. A transfer carries chunks of its source
// to the same slots of its target, which stores them or adds its own to them.
//
// Invariants: within a step, no rank sends a chunk that it also receives, so
// that every read sees the state before the step. If a step carries a chunk to
// one target several times, they are added in the order listed.
//
// Chunks that ranks begin and end with, for n ranks and q pieces per shard:
//   all-gather      n q chunks; rank r begins with r q .. r q + q - 1 and ends
//                   with all
//   reduce-scatter  n q chunks; all begin with all, rank r ends with the sums
//                   of r q .. r q + q - 1
//   all-reduce      any number; all begin and end with all, summed
//   all-to-all      n n q chunks; (s n + t) q + i goes from rank s to rank t
//   permute         n q chunks; those of rank r go to rank r + 1, modulo n
//   broadcast       any number; rank 0 begins with all, all end with all

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
std::optional<CollectiveKind> find_collective(std::string_view name);

struct Transfer {
  int source = 0;
  int target = 0;
  int first_chunk = 0;
  int chunk_count = 1;
  bool reduce = false;  // adds the target's own: arriving + own

  bool operator==(const Transfer&) const = default;
};
using Step = std::vector<Transfer>;

struct Schedule {
  int ranks = 1;
  int chunks = 0;
  std::vector<Step> steps;
};

// Returns a schedule without steps. REQUIRES: chunks can be counted by an int;
// the n n chunks of all-to-all cannot above 46,340 ranks.
Schedule empty_schedule(int ranks, int64_t chunks);
// Appends `next`, which runs after all of `schedule`, on the same chunks.
void append(Schedule& schedule, const Schedule& next);
// Returns the schedule run backwards, every transfer going from target to
// source and adding: an all-gather becomes the reduce-scatter along the same
// paths, a broadcast the sum at rank 0. REQUIRES: a rank receives a chunk at
// most once, and none that it begins with.
Schedule backwards(const Schedule& schedule);

// Executes a schedule on slots[rank][chunk]. `add(arriving, own)` returns the
// sum, in this order of operands; T() is an empty slot.
template <typename T, typename Add>
void execute(const Schedule& schedule, std::vector<std::vector<T>>& slots,
             Add add) {
  for (const Step& step : schedule.steps) {
    for (const Transfer& t : step) {
      auto& target = slots[static_cast<size_t>(t.target)];
      const auto& source = slots[static_cast<size_t>(t.source)];
      const auto first = static_cast<size_t>(t.first_chunk);
      for (size_t c = first; c < first + static_cast<size_t>(t.chunk_count);
           ++c) {
        target[c] = t.reduce ? add(source[c], target[c]) : source[c];
      }
    }
  }
}

// Returns the sizes of the chunks when `payload`, as least_copies() defines it,
// is cut evenly (see EvenCut): first into the n shards or parts of the kind,
// then each of them into its pieces.
std::vector<int64_t> chunk_sizes(CollectiveKind kind, const Schedule& schedule,
                                 int64_t payload);

// The traffic of a schedule, for chunks of given sizes in bytes.
struct Traffic {
  int64_t total = 0;    // bytes over all ranks
  int64_t busiest = 0;  // bytes that the busiest rank sends
  int64_t steps = 0;    // steps that carry anything
};
Traffic traffic(const Schedule& schedule,
                const std::vector<int64_t>& chunk_bytes);

// Algorithms: which collective algorithms there are, for which ranks each is
// defined, and what one costs.
//
// Ranks are numbered along the mesh axes of the collective, major to minor.
// `inner` is the size of the fastest axis, for algorithms that treat it
// separately (hierarchical); it divides `count`.
//
// Sources: rings as in xlstm_jax.distributed.tensor_parallel (orders and
// associations included); halving-doubling and trees as in Thakur, Rabenseifner
// and Gropp, "Optimization of Collective Communication Operations in MPICH"
// (2005).

struct Ranks {
  int count = 1;
  int inner = 1;
};

struct Algorithm {
  std::string_view name;     // "ring"
  std::string_view summary;  // one line for `list algorithms`
  bool (*supports)(CollectiveKind kind, const Ranks& ranks);
  // REQUIRES, here and below: supports(kind, ranks).
  Schedule (*schedule)(CollectiveKind kind, const Ranks& ranks);
  // Returns what one rank sends in total, without making the schedule.
  int64_t (*sent)(CollectiveKind kind, const Ranks& ranks, int rank,
                  int64_t payload);
  // Returns how many copies of the payload all ranks together send; null if
  // that is least_copies() for every kind.
  int64_t (*copies)(CollectiveKind kind, const Ranks& ranks) = nullptr;
};

// Returns the one table of algorithms, of which ring is the first. A schedule
// of n ranks has at most about 2 n n transfers.
std::span<const Algorithm> algorithms();
const Algorithm* find_algorithm(std::string_view name);
// Returns `wanted` if it supports the collective, else the first of the table
// that does. Every kind has one for every number of ranks.
const Algorithm& algorithm_for(CollectiveKind kind, const Ranks& ranks,
                               const Algorithm* wanted);

// Returns the copies of the payload, over all ranks, that no algorithm can do
// without, where `payload` is
//   all-gather      the gathered result, of one rank
//   reduce-scatter  what one rank contributes
//   all-reduce      what one rank contributes
//   all-to-all      what one rank holds
//   permute         what one rank holds (all send)
//   broadcast       what rank 0 holds
// Every rank must receive what it lacks. In a sum, every chunk must meet n - 1
// others and, for all-reduce, reach n - 1 ranks again.
int64_t least_copies(CollectiveKind kind, int ranks);

// Returns the bytes that the algorithm sends over all ranks, by a closed form
// without its schedule. Returns nothing if it does not support the collective.
std::optional<int64_t> priced_bytes(const Algorithm& algorithm,
                                    CollectiveKind kind, const Ranks& ranks,
                                    int64_t payload);

// Arithmetic of ranks, chunks and payloads.

// Returns the remainder in [0, count), even for a negative index. REQUIRES:
// count > 0.
int64_t wrap(int64_t index, int64_t count);

// Cuts a total into parts of nearly equal size, as payloads are cut into
// chunks. Part i is [total i / parts, total (i + 1) / parts), both rounded
// down: 10 in 4 parts is 2, 3, 2, 3. The unit is the caller's: bytes, or
// elements if a cut must not go through one.
struct EvenCut {
  int64_t total = 0;  // >= 0
  int64_t parts = 1;  // >= 1

  // Returns where a part begins. REQUIRES: 0 <= part <= parts.
  int64_t begin(int64_t part) const;
  // Returns the size of one part, counted modulo `parts`.
  int64_t size(int64_t part) const;
  // Returns the total size of `count` parts from `first` on, wrapping around.
  // REQUIRES: 0 <= count <= parts.
  int64_t run(int64_t first, int64_t count) const;
};

// Returns the product, or the largest int64_t if that is less. REQUIRES:
// neither factor is negative.
int64_t saturated_product(int64_t a, int64_t b);

}  // namespace shardplan
