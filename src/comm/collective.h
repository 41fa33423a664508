// SPDX-License-Identifier: Apache-2.0
// Collectives: which algorithms there are, for which ranks each is defined, and
// what one costs.
//
// Ranks are numbered along the mesh axes of the collective, major to minor.
// `inner` is the size of the fastest of them, for algorithms that treat it
// apart (hierarchical); it divides `count`.
//
// Sources: rings as in xlstm_jax.distributed.tensor_parallel (orders and
// associations included); halving-doubling and trees as in Thakur, Rabenseifner
// and Gropp, "Optimization of Collective Communication Operations in MPICH"
// (2005).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "comm/schedule.h"

namespace shardplan {

struct Ranks {
  int count = 1;
  int inner = 1;
};

struct Algorithm {
  std::string_view name;     // "ring"
  std::string_view summary;  // one line for `list algorithms`
  bool (*supports)(CollectiveKind kind, const Ranks& ranks);
  // REQUIRES of this and of the functions below: supports(kind, ranks).
  Schedule (*schedule)(CollectiveKind kind, const Ranks& ranks);
  // What one rank sends in all, found without the schedule.
  int64_t (*sent)(CollectiveKind kind, const Ranks& ranks, int rank,
                  int64_t payload);
  // How many copies of the payload are sent over all ranks; null where it is
  // least_copies() for every kind.
  int64_t (*copies)(CollectiveKind kind, const Ranks& ranks) = nullptr;
};

// The one table of algorithms; ring is the first. A schedule of n ranks has at
// most about 2 n n transfers.
std::span<const Algorithm> algorithms();
const Algorithm* find_algorithm(std::string_view name);
// `wanted` where it can do that, else the first of the table that can; every
// kind has one for every number of ranks.
const Algorithm& algorithm_for(CollectiveKind kind, const Ranks& ranks,
                               const Algorithm* wanted);

// Bytes over all ranks that no algorithm can do without, where `payload` is
//   all-gather      the gathered result, of one rank
//   reduce-scatter  what one rank contributes
//   all-reduce      what one rank contributes
//   all-to-all      what one rank holds
//   permute         what one rank holds (all send)
//   broadcast       what rank 0 holds
// Every rank must receive what it lacks; of a sum, every chunk must meet n - 1
// others and, for all-reduce, reach n - 1 ranks again. A payload may be given
// in any unit, the answer has the same: where the chunks of an uneven payload
// are cut between elements, ask in elements. Answers that exceed an int64_t are
// the largest of them.
int64_t least_bytes(CollectiveKind kind, int ranks, int64_t payload);
// The same as copies of the payload.
int64_t least_copies(CollectiveKind kind, int ranks);

// Bytes over all ranks that the algorithm sends: the closed form, found without
// its schedule. Empty where it does not support that.
std::optional<int64_t> priced_bytes(const Algorithm& algorithm,
                                    CollectiveKind kind, const Ranks& ranks,
                                    int64_t payload);
// Bytes that the busiest rank sends, found in the same way; exact where the
// payload times twice the ranks fits an int64_t.
std::optional<int64_t> priced_busiest(const Algorithm& algorithm,
                                      CollectiveKind kind, const Ranks& ranks,
                                      int64_t payload);

}  // namespace shardplan
