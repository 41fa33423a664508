// SPDX-License-Identifier: Apache-2.0
// What frameworks and engines refuse to run because it does not divide: one
// row each, with where its code says so.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"

namespace shardplan {

// What is cut.
enum class Divided : uint8_t {
  Batch,   // sequences of a step
  Tokens,  // of a sequence
  Heads,
  KvHeads,
  StateHeads,   // of a Mamba 2 mixer
  StateGroups,  // that share its projections B and C
  // The next three belong to interleaved pipelines.
  Microbatches,
  Group,        // of micro-batches that a chunk runs after one another
  StageLayers,  // of a stage, as its chunks share them
};
inline constexpr size_t kDivided = 9;

// Degrees of parallelism, each 1 where there is none.
enum class Degree : uint8_t {
  Data,
  Microbatches,
  Context,   // tokens of a sequence, in attention too
  Tensor,    // heads and widths
  Sequence,  // tensor-parallel ranks that cut tokens outside of attention
  Ulysses,   // tokens that attention exchanges for heads
  Stages,
  Chunks,  // of layers, of a stage
  Group,   // of micro-batches that a chunk runs after one another
};
inline constexpr size_t kDegrees = 9;

// What a rule is held against. 0: the model has none, or it is not known.
struct Divisions {
  std::array<int64_t, kDivided> counts{};
  std::array<int64_t, kDegrees> degrees = {1, 1, 1, 1, 1, 1, 1, 1, 1};

  int64_t& count(Divided what) { return counts[static_cast<size_t>(what)]; }
  int64_t& degree(Degree of) { return degrees[static_cast<size_t>(of)]; }
};

// The label of the groups that heads of a Mamba 2 mixer share, as a part of a
// dimension.
inline constexpr std::string_view kStateGroups = "groups";
// Sets what the labels of an architecture say of heads and groups of mixers; of
// layers that differ the smallest.
void count_states(const Manifest& manifest, Divisions& divisions);
// Sets the layers of the first stage that its chunks cannot share, if there is
// one: evenly, or, where somebody named the layers of each stage, so that no
// chunk is empty. An embedding before the first layer and a head after the last
// may count as one.
void count_stage_layers(const std::vector<int64_t>& layers, int64_t chunks,
                        bool named, Divisions& divisions);

struct DivisionProblem {
  std::string text;     // "8 state groups are not divisible by 16 (tensor 16)"
  std::string source;   // "Megatron-core, mamba_mixer.py"
  int64_t nearest = 0;  // the next larger count that divides
  Divided what = Divided::Batch;
};
// Of the rules that hold for every framework, and of those of the named one; of
// one quantity at most one.
std::vector<DivisionProblem> division_problems(const Divisions& divisions,
                                               std::string_view framework);

}  // namespace shardplan
