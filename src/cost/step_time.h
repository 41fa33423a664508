// SPDX-License-Identifier: Apache-2.0
// StepTime: how long a training step takes, as three numbers.
//
// No run beats the lower one: products at the highest rate ever reached, bytes
// over every link at its full rate, computing and sending at the same time,
// stages of equal work. The estimate runs layer after layer with what was
// measured of kernels and collectives; what a framework sends ahead of use
// (weights that are gathered, gradients that are summed) hides behind
// computing. The upper one hides nothing, at the slow end of what was measured.
//
// With m micro-batches, a pipeline takes m times the slowest stage, and in
// addition the time of the other stages once, or a v-th of that time if stages
// are interleaved in v chunks (Narayanan et al., 2021).
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
  std::string part;      // "products", "all-reduce over tp", "bubble"
  Seconds seconds = {};  // on the slowest device
  double exposed = 0;    // the part of the estimate that does not hide
  Basis basis = Basis::Measured;
  std::string source = {};  // a citation of the profile; "" if there is none
};

// All collectives of one kind in a step, on one device.
struct StepCollective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  AxisNames axes;         // as users name them
  std::string link = {};  // "nvlink", "nvlink+infiniband"
  std::string where;      // "layers.*", "behind layers", "step"
  Direction direction = Direction::Forward;
  double count = 0;
  double bytes_per_device = 0;  // sent by one device
  double seconds = 0;           // in the estimate
  double exposed = 0;
};

struct StepTime {
  Seconds total;
  double tokens = 0;       // per step, over all devices
  double model_flops = 0;  // per step, over all devices, forward and backward
  double mfu = 0;
  // Bounds of every step that computes the same on each device, by the
  // estimate: what is computed, to which the time adds what is waited for, and
  // the same with what a host program needs to start the kernels, meanwhile.
  double computed = 0;
  double unsent = 0;
  std::string limited_by;  // "products (61 %), all-reduce over tp (18 %)"
  std::vector<StepTimePart> parts;
  std::vector<StepCollective> collectives;
  std::vector<std::string> links;  // "tp: nvlink inside 8 devices"
  std::vector<Sending> sends;      // of the slowest stage, by the estimate

  double tokens_per_second() const { return tokens / total.estimate; }
};

// Adds up stages that are already priced: the total, and the rows of a report.
StepTime composed_time(const TimedRun& run, const StepOptions& options,
                       const StageTimes& times, LinkPlaces& places);

// The least seconds of forward and backward of a micro-batch, by the estimate,
// if others share the work of each of the program's devices.
struct LeastPass {
  double computed = 0;
  double waited = 0;  // for collectives, if nobody shared them

  double shared_by(double parts) const { return computed + waited / parts; }
};
// REQUIRES: no stages; TimedRun::shared is set.
std::optional<LeastPass> least_pass(const StepTimeInput& input,
                                    const StepOptions& options,
                                    std::string& why);

// Returns the time of a step. Returns nothing, with the reason in `why`, if the
// profile lacks a rate, or a link that reaches as far as an axis.
std::optional<StepTime> step_time(const StepTimeInput& input,
                                  const StepOptions& options, std::string& why);

}  // namespace shardplan
