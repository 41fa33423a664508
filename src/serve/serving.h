// SPDX-License-Identifier: Apache-2.0
// What an engine does with the memory of each device, and what it can serve.
//
//   share of the memory - weights - activations and graphs = cache   (vLLM)
//   share of what is free - weights = cache                         (SGLang)
//
// All that is not weights is known in brackets only, so the cache is one, too:
// its upper end is what the least of all else leaves. The stage with the
// fewest sequences decides. Units: bytes on one rank, tokens, sequences; tokens
// and sequences are those of one data-parallel group.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/types.h"
#include "memory/budget.h"
#include "memory/fit.h"
#include "memory/stages.h"
#include "serve/degrees.h"
#include "serve/engine.h"
#include "serve/overhead.h"
#include "serve/pool.h"
#include "serve/weights.h"

namespace shardplan {

// What users ask of an engine.
struct ServedWorkload {
  int64_t input = 0;        // tokens of a prompt
  int64_t output = 0;       // tokens that follow it
  int64_t concurrency = 1;  // requests at once, over all groups
};

struct ServingInput {
  const Engine* engine = nullptr;
  EngineMesh mesh;
  const Mesh* devices = nullptr;  // with stages
  std::optional<Stages> stages;
  DeviceLimit device;
  std::optional<double> share;  // of the memory; else the engine's default
  std::optional<int64_t> batched_tokens;
  std::optional<int64_t> sequences;
  int64_t seq = 1;
  int64_t batch = 1;  // sequences that are to be there at once, in all groups
  DType kv_dtype = DType::BF16;
  std::optional<int64_t> block;
  std::optional<DType> weight_dtype;
  // A smaller model that proposes tokens (serve/draft.h); null: none.
  const ServedWeights* draft = nullptr;
  LoraSlots slots = {};
  // Whether every degree is judged, or the one that is asked for alone.
  bool all_degrees = true;
  // What its times are of; empty: a token at `seq` of `batch` sequences.
  std::optional<ServedWorkload> workload = {};
};

// Lower, estimate and upper.
inline constexpr std::array<std::string_view, 3> kBracketEnds = {
    "lower", "estimate", "upper"};

struct ServedStage {
  std::string label;  // "stage 0: embedding, layers 0-7"; "" for one alone
  RankWeights weights;
  std::vector<CacheLayer> layers;
  Bracket available;  // for the cache; negative where weights alone exceed it
  int64_t cache_needed = 0;  // for the sequences that a group is asked to hold
  std::array<std::optional<CachePool>, 3> pools;  // as kBracketEnds
};

struct Serving {
  const Engine* engine = nullptr;
  EngineMesh mesh;
  Mesh layout = Mesh({{"tp", 1}});
  DeviceLimit device;
  EngineDefaults settings;  // as asked for, or by default
  bool share_is_default = false;
  Bracket share_bytes;  // the engine's share of a device
  int64_t seq = 1;
  DType kv_dtype = DType::BF16;
  std::vector<Overhead> overheads;
  std::vector<ServedStage> stages;
  size_t decides = 0;  // the stage with the fewest sequences
  // The model keeps no cache: nothing limits how many sequences there are.
  bool without_cache = false;
  // What of the cache is not counted, so that nobody knows how many sequences
  // there is room for; "" where all of it is.
  std::string uncounted;
  int64_t batch = 1;  // as asked for
  std::string draft;  // its title; "" without one
  // The share and what is outside of it exceed the device, even at the least.
  int64_t missing_at_start = 0;
  // What a step takes at least beyond what the share leaves (Taken::Rest).
  int64_t missing_for_steps = 0;
  std::vector<std::string> problems;  // why the engine does not start so
  std::vector<std::string> remarks;
  std::vector<DegreeVerdict> verdicts;

  const ServedStage& stage() const { return stages[decides]; }
  // Whether it is known how many sequences there is room for, and that is not
  // any number.
  bool limits_sequences() const { return !without_cache && uncounted.empty(); }
  // Sequences of one data-parallel group at one end of the bracket: those of
  // the stage that has the fewest there, infinite without a cache, and 0 where
  // the weights of a stage alone exceed the share. Of a cache that is not
  // counted, none at least and any number at most.
  double group_sequences(size_t end) const;
  // The same in all groups. A sequence lives in one group, so what several
  // groups have left over of whole sequences holds nothing.
  double sequences(size_t end) const;
  // Sequences that the fullest group is asked to hold: a sequence is in one.
  int64_t sequences_of_group() const { return ceil_div(batch, mesh.dp); }
  // Whether every stage of a group holds these at one end of the bracket.
  bool holds(size_t end) const {
    return group_sequences(end) >= static_cast<double>(sequences_of_group());
  }
  // Bytes that the fullest stage has left with them; negative: that it lacks.
  int64_t spare(size_t end) const;
  bool has_experts() const {
    return std::any_of(verdicts.begin(), verdicts.end(),
                       [](const DegreeVerdict& verdict) {
                         return verdict.of == DegreeOf::Experts;
                       });
  }
  bool starts() const { return problems.empty() && missing_at_start == 0; }
};

// Empty, with the reason reported (SP013): dimensions without labels, or no
// number of layers.
std::optional<ServedWeights> known_weights(const Model& of,
                                           const Engine& engine,
                                           Diagnostics& diags);
// Empty, with the reason reported: layers of which it is not known what they
// keep (SP013), stages that cannot be (SP010).
std::optional<Serving> serve(const ServedWeights& model,
                             const ServingInput& input, Diagnostics& diags);

// The same with one change, computed again.
struct TriedServing {
  std::string flags;                  // "--kv-dtype f8_e4m3"
  std::array<double, 3> sequences{};  // in all groups, as kBracketEnds
  double group_sequences = 0;         // the estimate of one group
  bool starts = false;
  Fit fit = {};  // of what is asked for
};

}  // namespace shardplan
