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
  // REQUIRES: supports(kind, ranks).
  Schedule (*schedule)(CollectiveKind kind, const Ranks& ranks);
};

// The one table of algorithms.
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
int64_t least_bytes(CollectiveKind kind, int ranks, int64_t payload);
// Bytes over all ranks that the algorithm sends: the closed form, found without
// its schedule. Empty where it does not support that.
std::optional<int64_t> priced_bytes(const Algorithm& algorithm,
                                    CollectiveKind kind, const Ranks& ranks,
                                    int64_t payload);

}  // namespace shardplan
