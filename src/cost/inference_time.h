// SPDX-License-Identifier: Apache-2.0
// inference_times(): how long inference takes, as three numbers
// (cost/step_time.h). It runs passes of one kind or of several, one after the
// other through all layers and stages.
//
// In the lower end, computing and sending run at the same time, and weights and
// cache are read once at the memory's full rate. In the estimate, a CUDA graph
// or an engine starts the kernels, unless they are eager. In the upper end, a
// Python program may start each of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/inference_pass.h"
#include "cost/stage_time.h"
#include "cost/step_time.h"

namespace shardplan {

enum class Launches : uint8_t {
  Hidden,   // a captured graph starts all kernels
  Unknown,  // hidden; in the upper end, each from Python
  Each,     // Python starts each
};

struct InferenceTimeInput : TimedRun {
  std::vector<double> counts = {};       // how often each segment runs
  std::vector<std::string> labels = {};  // one per segment
  // The axes are the program's, which users know by other names.
  bool renames_axes = false;
  Launches launches = Launches::Unknown;
  // Sums of few bytes run as one kernel that reads what all ranks have, as in
  // engines, instead of a library's rings and trees.
  bool sums_in_kernels = false;
  std::array<double, kSavingModes> overhead{};  // seconds per pass
  // One stage hands `handed_bytes` to the next along this axis.
  AxisNames stage_axis = {};
  double stages = 1;
  double handed_bytes = 0;
};

// Returns the times of a pass with these segments. Returns nothing, with the
// reason in `why`, if no link reaches as far as an axis.
std::optional<StageTimes> inference_times(
    const InferenceTimeInput& input,
    const std::vector<InferenceSegment>& segments, LinkPlaces& places,
    std::string& why);

// A pass, and how often it runs in each of the three figures.
struct RepeatedPass {
  const StageTimes& times;
  std::array<double, kSavingModes> count{};
};
StageTimes summed(const std::vector<RepeatedPass>& passes);

}  // namespace shardplan
