// SPDX-License-Identifier: Apache-2.0
// Residual: the measured time or memory of a step, beside what is estimated,
// and where the difference may come from.
//
// Only the whole was measured, so no part of it is known. What each part may
// contribute follows from its range: the difference is divided among parts in
// proportion to the squares of how far they may be from their estimates, and no
// further than that, as if these were independent errors. Times are in seconds,
// memory in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "activations/bracket.h"
#include "cost/step_time.h"

namespace shardplan {

// The values of --measured; empty if it was not given.
struct MeasuredStep {
  std::optional<double> seconds;  // per step
  std::optional<int64_t> peak;    // bytes allocated on the fullest device

  bool any() const { return seconds || peak; }
};

// A part of a step's time or memory.
struct ResidualPart {
  std::string part;
  std::string title;  // for display
  double lower = 0;
  double estimate = 0;
  double upper = 0;
  double counted = 0;  // the estimate without what hides behind other parts
  // Its likely share of the difference, with the sign of the difference; none
  // if no part can be off in that direction.
  std::optional<double> share = {};
  // The factor by which its estimate would be off if it alone made the
  // difference; none if it cannot.
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
