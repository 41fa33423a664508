// SPDX-License-Identifier: Apache-2.0
// MemoryBracket: what a training step has allocated at its fullest moment, from
// below, by an estimate and from above (activations/step_memory.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardplan {

// How much of what backward may read is kept (activations/kept.h).
enum class Keeping : uint8_t { Least, Fused, Eager };
inline constexpr size_t kKeepings = 3;

struct BracketRow {
  std::string
      category;  // as in tables.memory, and activations, logits, buffers
  std::string title;
  std::array<int64_t, kKeepings> bytes{};
};

// What is there at the fullest moment, by the estimate.
struct AliveRow {
  std::string value;   // "layers.*.mlp.gate"
  bool saved = false;  // from forward, else of the backward that runs
  int64_t bytes = 0;
};

// One cause of the difference between the ends of a bracket, with its bytes, at
// the moment when the upper end is largest. The lower end may be largest at
// another moment.
struct Widening {
  std::string cause;
  int64_t bytes = 0;
};

// At its own fullest moment.
struct StageBracket {
  std::string device;  // class, as in the budget
  int64_t stage = 0;
  std::array<int64_t, kKeepings> total{};
};

struct MemoryBracket {
  std::vector<BracketRow> rows;
  std::array<int64_t, kKeepings> total{};  // sums of the rows
  // In host memory, for each device, at the most at once; only where a policy
  // keeps something there.
  bool offloads = false;
  std::array<int64_t, kKeepings> host{};
  std::string device;           // of the estimate; "" if all are alike
  std::string moment;           // of the estimate
  std::vector<AliveRow> alive;  // the largest first
  std::vector<StageBracket> stages = {};  // of a pipeline, in their order
  std::vector<Widening> widened = {};     // the largest first
  bool is_eager = false;                  // every operation that runs is known
  bool repeats = false;                   // layers are computed again

  int64_t lower() const { return total[0]; }
  int64_t estimate() const { return total[1]; }
  int64_t upper() const { return total[2]; }
};

}  // namespace shardplan
