// SPDX-License-Identifier: Apache-2.0
// Overhead: the device memory that an engine takes beyond weights and cache, as
// brackets. It consists of the activations of the largest step, captured
// graphs, the runtime, and connections to other devices.
//
// Only the activations follow from the model; the others are ranges seen in
// logs, each with its source. lower <= estimate <= upper. Units: bytes.
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

// The part of the memory that it comes out of.
enum class MemoryPart : uint8_t {
  InShare,  // the engine's share, like weights and cache
  Rest,     // the memory outside the share
  Before,   // taken before the engine measures free memory
};
std::string_view memory_part_name(MemoryPart part);  // "share"

struct Overhead {
  std::string name;   // "activations"
  std::string title;  // "activations of the largest step"
  Bracket bytes;
  MemoryPart part = MemoryPart::InShare;
  std::string source;
};

// Widths of a model, in elements.
struct StepWidths {
  int64_t hidden = 0;
  int64_t vocab = 0;       // of the whole vocabulary
  int64_t attention = 0;   // output of one layer's projections, on a rank
  int64_t mlp = 0;         // output of gate and up, or of up alone, on a rank
  int64_t expert_mlp = 0;  // the same for one expert
  int64_t experts = 0;     // 0: none
};
StepWidths step_widths(const ServedWeights& model, const Mesh& layout);

std::vector<Overhead> overheads(const Engine& engine, const StepWidths& widths,
                                const EngineDefaults& settings, int64_t ranks);

}  // namespace shardplan
