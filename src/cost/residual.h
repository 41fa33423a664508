// SPDX-License-Identifier: Apache-2.0
// Residual: what somebody measured of a step, beside what is estimated, and
// where the difference may lie.
//
// Only the whole was measured, so no part of it is known. What each part may
// contribute follows from its range: the difference is shared out by the
// squares of how far parts may lie from their estimates, and no further than
// that, as if these were independent errors. Times in seconds, memory in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "activations/bracket.h"
#include "cost/step_time.h"

namespace shardplan {

// --measured; empty where it was not.
struct MeasuredStep {
  std::optional<double> seconds;  // of a step
  std::optional<int64_t> peak;    // bytes allocated on the fullest device

  bool any() const { return seconds || peak; }
};

// A part of a step's time or memory.
struct ResidualPart {
  std::string part;
  std::string title;  // for people
  double lower = 0;
  double estimate = 0;
  double upper = 0;
  double counted = 0;  // of the estimate: what is not hidden behind others
  // Its likely share of the difference, with the sign of that; none where no
  // part can be off in that direction.
  std::optional<double> share = {};
  // How many times its estimate it would be if it alone made the difference;
  // none where it cannot.
  std::optional<double> alone = {};
  bool alone_is_in_range = false;
};

struct Residual {
  double measured = 0;
  double lower = 0;
  double estimate = 0;
  double upper = 0;
  std::vector<ResidualPart> parts;

  double difference() const { return measured - estimate; }
  bool breaks_bound() const { return measured < lower; }
};

Residual time_residual(const StepTime& time, double measured);
Residual memory_residual(const MemoryBracket& bracket, int64_t measured);

}  // namespace shardplan
