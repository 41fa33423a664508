// SPDX-License-Identifier: Apache-2.0
// StepTime: how long a training step takes, as three numbers.
//
// The lower one no run beats: products at the highest rate ever reached, bytes
// over every link at its full rate, computing and sending at the same time,
// stages of equal work. The estimate runs layer after layer with what was
// measured of kernels and collectives; what a framework sends ahead of use
// (weights that are gathered, gradients that are summed) hides behind
// computing. The upper one hides nothing, at the slow end of what was measured.
//
// Stages: with m micro-batches a step takes m times the slowest stage and what
// the others take once, where stages are interleaved in v chunks a v-th of that
// (Narayanan et al., 2021).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "activations/options.h"
#include "comm/collective.h"
#include "cost/kernels.h"
#include "cost/stage_time.h"

namespace shardplan {

struct StepTimePart {
  std::string part;    // "products", "all-reduce over tp", "bubble"
  Seconds seconds;     // of the slowest device
  double exposed = 0;  // of the estimate
  Basis basis = Basis::Measured;
  std::string source;  // a citation of the profile; "" where there is none
};

// All of one kind in a step, of one device.
struct StepCollective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  AxisNames axes;     // as users name them
  std::string link;   // "nvlink", "nvlink+infiniband"
  std::string where;  // "layers.*", "behind layers", "step"
  Direction direction = Direction::Forward;
  double count = 0;
  double bytes_per_device = 0;  // that one device sends
  double seconds = 0;           // of the estimate
  double exposed = 0;
};

struct StepTime {
  Seconds total;
  double tokens = 0;       // of a step, over all devices
  double model_flops = 0;  // of a step, over all devices, forward and backward
  double mfu = 0;
  // The same if devices sent nothing to one another: a bound of every step
  // that computes the same on each of them.
  double unsent = 0;
  std::string limited_by;  // "products (61 %), all-reduce over tp (18 %)"
  std::vector<StepTimePart> parts;
  std::vector<StepCollective> collectives;
  std::vector<std::string> links;  // "tp: nvlink inside 8 devices"

  double tokens_per_second() const { return tokens / total.estimate; }
};

// Adds up stages that are priced already: the total, and the rows of a report.
StepTime composed_time(const TimedRun& run, const StepOptions& options,
                       const StageTimes& times, LinkPlaces& places);

// Seconds that forward and backward of a micro-batch take at least where others
// share the work of each of the program's devices, by the estimate: what is
// computed, and what is waited for. REQUIRES: no stages, and TimedRun::shared.
std::optional<double> least_pass_seconds(const StepTimeInput& input,
                                      const StepOptions& options,
                                      std::string& why);

// Empty where the profile lacks a rate, or a link that reaches as far as an
// axis; `why` says so.
std::optional<StepTime> step_time(const StepTimeInput& input,
                                  const StepOptions& options, std::string& why);

}  // namespace shardplan
