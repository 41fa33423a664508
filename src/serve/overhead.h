// SPDX-License-Identifier: Apache-2.0
// What an engine takes of a device beside weights and cache, as brackets: the
// activations of its largest step, captured graphs, the runtime, connections to
// other devices.
//
// Only the first follows from the model; the others are ranges of what logs
// show, each with where it was read. lower <= estimate <= upper. Units: bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/engine.h"
#include "serve/weights.h"

namespace shardplan {

struct Bracket {
  int64_t lower = 0;
  int64_t estimate = 0;
  int64_t upper = 0;

  bool operator==(const Bracket&) const = default;
};
Bracket operator+(const Bracket& a, const Bracket& b);

// What it comes out of.
enum class Taken : uint8_t {
  InShare,  // of the engine's share of the memory, like weights and cache
  Rest,     // of what the share leaves
  Before,   // before the engine looks at what is free
};
std::string_view taken_name(Taken taken);  // "share"

struct Overhead {
  std::string name;   // "activations"
  std::string title;  // "activations of the largest step"
  Bracket bytes;
  Taken taken = Taken::InShare;
  std::string source;
};

// Widths of a model on one rank, in elements.
struct StepWidths {
  int64_t hidden = 0;
  int64_t vocab = 0;       // of the whole vocabulary
  int64_t attention = 0;   // what one layer's projections give, on a rank
  int64_t mlp = 0;         // gate and up, or one, on a rank
  int64_t expert_mlp = 0;  // the same of one expert
  int64_t experts = 0;     // 0: none
};
StepWidths step_widths(const ServedWeights& model, const Mesh& layout);

std::vector<Overhead> overheads(const Engine& engine, const StepWidths& widths,
                                const EngineDefaults& settings, int64_t ranks);

}  // namespace shardplan
