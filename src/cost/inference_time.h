// SPDX-License-Identifier: Apache-2.0
// How long inference takes, as three numbers (cost/step_time.h): passes of one
// kind or of several, one after the other through all layers and stages.
//
// At least, computing and sending run at the same time, and weights and cache
// are read once at the memory's full rate. By the estimate a CUDA graph or an
// engine starts the kernels, unless they are eager; at most a program in Python
// may start each of them.
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
  Hidden,   // a graph that was captured starts all kernels
  Unknown,  // hidden, but at most each by itself
  Each,     // Python starts each
};

struct InferenceTimeInput : TimedRun {
  std::vector<double> counts = {};       // of each segment
  std::vector<std::string> labels = {};  // likewise
  // The axes are those of the program, which has other names for them.
  bool renames_axes = false;
  Launches launches = Launches::Unknown;
  // Sums of few bytes are one kernel that reads what all ranks have, as engines
  // do it, in place of a library's rings and trees.
  bool sums_in_kernels = false;
  std::array<double, kKeepings> overhead{};  // seconds, of a pass
  // What one stage hands to the next, along this axis.
  AxisNames stage_axis = {};
  double stages = 1;
  double handed_bytes = 0;
};

// A pass with these segments. Empty, with the reason in `why`: a link that does
// not reach as far as an axis.
std::optional<StageTimes> inference_times(
    const InferenceTimeInput& input,
    const std::vector<InferenceSegment>& segments, LinkPlaces& places,
    std::string& why);

// Passes one after the other, each so often in each of the three answers.
struct RepeatedPass {
  const StageTimes& times;
  std::array<double, kKeepings> count{};
};
StageTimes summed(const std::vector<RepeatedPass>& passes);

}  // namespace shardplan
