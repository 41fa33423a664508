// SPDX-License-Identifier: Apache-2.0
// Serving: what an engine does with the memory of each device, and what it can
// serve.
//
//   share of the memory - weights - activations and graphs = cache   (vLLM)
//   share of what is free - weights = cache                         (SGLang)
//
// Everything except weights is known only as a bracket, so the cache is a
// bracket as well: its upper end is what the least of everything else leaves.
// The stage with the fewest sequences decides. Units: bytes on one rank,
// tokens, sequences; tokens and sequences are those of one data-parallel group.
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

// The requests that users send to an engine.
struct ServedWorkload {
  int64_t input = 0;        // tokens of a prompt
  int64_t output = 0;       // tokens generated after it
  int64_t concurrency = 1;  // concurrent requests, over all groups
};

struct ServingInput {
  const Engine* engine = nullptr;
  EngineMesh mesh;
  const Mesh* devices = nullptr;  // set if there are stages
  std::optional<Stages> stages;
  DeviceLimit device;
  std::optional<double> share;  // of the memory; else the engine's default
  std::optional<int64_t> batched_tokens;
  std::optional<int64_t> sequences;
  int64_t seq = 1;
  int64_t batch = 1;  // concurrent sequences, over all groups
  DType kv_dtype = DType::BF16;
  std::optional<int64_t> block;
  std::optional<DType> weight_dtype;
  // A smaller model that proposes tokens (serve/draft.h); null: none.
  const ServedWeights* draft = nullptr;
  LoraSlots slots = {};
  // Whether every degree is judged, or only the requested one.
  bool all_degrees = true;
  // The workload to time; empty: a token at `seq` of `batch` sequences.
  std::optional<ServedWorkload> workload = {};
};

// Lower, estimate and upper.
inline constexpr std::array<std::string_view, 3> kBracketEnds = {
    "lower", "estimate", "upper"};

struct ServedStage {
  std::string label;  // "stage 0: embedding, layers 0-7"; "" if there is one
  RankWeights weights;
  std::vector<CacheLayer> layers;
  Bracket available;  // for the cache; negative if weights alone exceed it
  int64_t cache_needed = 0;  // for the sequences requested of a group
  std::array<std::optional<CachePool>, 3> pools;  // indexed like kBracketEnds
};

struct Serving {
  const Engine* engine = nullptr;
  EngineMesh mesh;
  Mesh layout = Mesh({{"tp", 1}});
  DeviceLimit device;
  EngineDefaults settings;  // as requested, or by default
  bool share_is_default = false;
  Bracket share_bytes;  // the engine's share of a device
  int64_t seq = 1;
  DType kv_dtype = DType::BF16;
  std::vector<Overhead> overheads;
  std::vector<ServedStage> stages;
  size_t decides = 0;  // the stage with the fewest sequences
  // The model has no cache, so nothing limits the number of sequences.
  bool without_cache = false;
  // The part of the cache that is not modelled, so that the number of sequences
  // is unknown; "" if none.
  std::string uncounted;
  int64_t batch = 1;  // as requested
  std::string draft;  // its title; "" if there is none
  // Bytes by which the share and the memory outside it exceed the device, at
  // least.
  int64_t missing_at_start = 0;
  // Bytes that a step needs beyond what the share leaves (MemoryPart::Rest), at
  // least.
  int64_t missing_for_steps = 0;
  std::vector<std::string> problems;  // why the engine does not start
  std::vector<std::string> remarks;
  std::vector<DegreeVerdict> verdicts;

  const ServedStage& stage() const { return stages[decides]; }
  // Returns whether the number of sequences that fit is known and finite.
  bool limits_sequences() const { return !without_cache && uncounted.empty(); }
  // Returns the sequences of one data-parallel group at one end of the bracket:
  // those of the stage with the fewest. Infinite without a cache, and 0 if the
  // weights of a stage alone exceed the share. If part of the cache is
  // uncounted, 0 at the lower end and the estimate, and infinite at the upper
  // end.
  double group_sequences(size_t end) const;
  // Returns the same for all groups. A sequence belongs to one group, so
  // fractions of sequences in several groups do not add up.
  double sequences(size_t end) const;
  // Returns the sequences requested of the fullest group.
  int64_t sequences_of_group() const { return ceil_div(batch, mesh.dp); }
  // Returns whether every stage of a group holds these at one end of the
  // bracket.
  bool holds(size_t end) const {
    return group_sequences(end) >= static_cast<double>(sequences_of_group());
  }
  // Returns the bytes that the fullest stage has left with these; negative: the
  // bytes that it lacks.
  int64_t headroom(size_t end) const;
  bool has_experts() const {
    return std::any_of(verdicts.begin(), verdicts.end(),
                       [](const DegreeVerdict& verdict) {
                         return verdict.of == DegreeOf::Experts;
                       });
  }
  bool starts() const { return problems.empty() && missing_at_start == 0; }
};

// Returns the weights as engines see them. Empty, with the reason reported
// (SP013): dimensions have no labels, or the number of layers is unknown.
std::optional<ServedWeights> known_weights(const Model& of,
                                           const Engine& engine,
                                           Diagnostics& diags);
// Computes the answer. Empty, with the reason reported: it is unknown what the
// layers cache (SP013), or the stages are impossible (SP010).
std::optional<Serving> serve(const ServedWeights& model,
                             const ServingInput& input, Diagnostics& diags);

// The answer with one change, judged again.
struct TriedServing {
  std::string flags;                  // "--kv-dtype f8_e4m3"
  std::array<double, 3> sequences{};  // over all groups, indexed like
                                      // kBracketEnds
  double group_sequences = 0;         // the estimate for one group
  bool starts = false;
  Fit fit = {};  // of the request
};

}  // namespace shardplan
