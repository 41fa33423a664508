// SPDX-License-Identifier: Apache-2.0
// MemoryBracket: the bytes that a training step has allocated at its peak, as a
// lower end, an estimate and an upper end (activations/step_memory.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardplan {

// How much of what backward may read is saved (activations/saved_values.h). The
// values also index the three figures of a bracket: lower end, estimate and
// upper end.
enum class SavingMode : uint8_t { Least, Fused, Eager };
inline constexpr size_t kSavingModes = 3;
// The three figures, in order.
inline constexpr std::array<SavingMode, kSavingModes> kFigures = {
    SavingMode::Least, SavingMode::Fused, SavingMode::Eager};

struct BracketRow {
  std::string
      category;  // a category of tables.memory, or activations, logits, buffers
  std::string title;
  std::array<int64_t, kSavingModes> bytes{};
};

// A value that is live at the peak of the estimate.
struct AliveRow {
  std::string value;   // "layers.*.mlp.gate"
  bool saved = false;  // by forward; else it is live in the running backward
  int64_t bytes = 0;
};

// One cause of the difference between the ends of a bracket, with its bytes at
// the moment when the upper end is largest. The lower end may be largest at
// another moment.
struct Widening {
  std::string cause;
  int64_t bytes = 0;
};

// The bracket of one pipeline stage, at its own peak.
struct StageBracket {
  std::string device;  // device class, as in the budget
  int64_t stage = 0;
  std::array<int64_t, kSavingModes> total{};
};

// The memory of the device where the estimate peaks, moment by moment: at the
// forward and backward of every segment of its stage, and in the optimizer's
// step. The largest moment of each figure is that of the bracket.
struct MemoryCurve {
  struct Moment {
    std::string label;             // "layer 31", "optimizer"
    std::vector<BracketRow> rows;  // like those of the bracket
  };
  std::vector<Moment> moments;  // in the order in which they happen
};

struct MemoryBracket {
  std::vector<BracketRow> rows;
  std::array<int64_t, kSavingModes> total{};  // sums of the rows
  // Whether anything is in host memory, and the most bytes that each device has
  // there at once.
  bool offloads = false;
  std::array<int64_t, kSavingModes> host{};
  std::string device;           // where the estimate peaks; "" if all are alike
  std::string moment;           // when the estimate peaks
  std::vector<AliveRow> alive;  // the largest first
  std::vector<StageBracket> stages = {};  // of a pipeline, in order
  std::vector<Widening> widened = {};     // the largest first
  std::optional<MemoryCurve> curve = {};  // if it was asked for
  bool is_eager = false;                  // every operation that runs is known
  bool recomputes = false;                // layers are recomputed

  int64_t lower() const { return total[0]; }
  int64_t estimate() const { return total[1]; }
  int64_t upper() const { return total[2]; }
};

}  // namespace shardplan
