// SPDX-License-Identifier: Apache-2.0
// Divisions: configurations that frameworks and engines refuse to run because a
// count is not divisible by degrees of parallelism. There is one rule per
// count, with the code that refuses it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "core/manifest.h"

namespace shardplan {

// The count that is divided.
enum class Divided : uint8_t {
  Batch,   // sequences of a step
  Tokens,  // of a sequence
  Heads,
  KvHeads,
  StateHeads,   // of a Mamba 2 mixer
  StateGroups,  // groups of heads that share projections B and C
  // The next three belong to interleaved pipelines.
  Microbatches,
  Group,        // micro-batches that a chunk runs consecutively
  StageLayers,  // layers of a stage, divided among its chunks
};
inline constexpr size_t kDivided = 9;

// The degrees of parallelism that divide a count, each 1 if not used.
enum class Degree : uint8_t {
  Data,
  Microbatches,
  Context,   // tokens of a sequence, including in attention
  Tensor,    // heads and widths
  Sequence,  // tensor-parallel ranks that shard tokens outside attention
  Ulysses,   // tokens, which attention exchanges for heads
  Stages,
  Chunks,  // groups of layers on one stage
  Group,   // micro-batches that a chunk runs consecutively
};
inline constexpr size_t kDegrees = 9;

// The values that rules compare. A count of 0: the model has none, or it is not
// known.
struct Divisions {
  std::array<int64_t, kDivided> counts{};
  std::array<int64_t, kDegrees> degrees = {1, 1, 1, 1, 1, 1, 1, 1, 1};

  int64_t& count(Divided what) { return nth(counts, what); }
  int64_t& degree(Degree of) { return nth(degrees, of); }
};

// The label of the groups that heads of a Mamba 2 mixer share, as a part of a
// dimension.
inline constexpr std::string_view kStateGroups = "groups";
// Sets the heads and groups of mixers from the labels of an architecture; if
// layers differ, to the smallest counts.
void count_states(const Manifest& manifest, Divisions& divisions);
// Sets the layer count of the first stage whose chunks cannot share its layers,
// if there is one. Chunks must share them evenly or, if the layers of each
// stage are `named` by the user, such that no chunk is empty. An embedding
// before the first layer and a head after the last may each count as a layer.
void count_stage_layers(const std::vector<int64_t>& layers, int64_t chunks,
                        bool named, Divisions& divisions);

struct DivisionProblem {
  std::string text;     // "8 Mamba groups are not divisible by 16
                        // (tensor-parallel 16)"
  std::string source;   // "Megatron-core, mamba_mixer.py"
  int64_t nearest = 0;  // the next larger count that divides
  Divided what = Divided::Batch;
};
// Returns the problems by the rules for every framework and by those of the
// named one; at most one problem per quantity.
std::vector<DivisionProblem> division_problems(const Divisions& divisions,
                                               std::string_view framework);

}  // namespace shardplan
