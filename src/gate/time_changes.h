// SPDX-License-Identifier: Apache-2.0
// TimeChange: how a change affects the time of a step, a token or a prompt
// (cost/step_time.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gate/changes.h"
#include "gate/fail_on.h"

namespace shardplan {

// A part of the time before and after; empty on a side that does not have it.
struct TimeChange {
  struct Side {
    Seconds seconds;
    double exposed = 0;  // part of the estimate that is not hidden
    bool operator==(const Side&) const = default;
  };
  std::string part;  // "products"; TargetSide::timed is the total
  std::optional<Side> before;
  std::optional<Side> after;
};
// Returns the parts that differ, in order, and the total last. Empty if nothing
// differs, or if a side has no time.
std::vector<TimeChange> time_part_changes(const TargetSide& before,
                                          const TargetSide& after);

// Adds the estimate and its ends if they differ, or if only one side has a
// time.
void add_time_changes(const TargetSide& before, const TargetSide& after,
                      std::vector<GateChange>& changes);

// Returns whether the time grew too much, or is missing although the base has
// one. A time that the base did not request is no growth.
bool takes_too_long(const FailOn& fail_on, const GateChange& change);

// Returns why `time>P%` cannot be judged: there is no time before the change.
// "" if it can, or if it is not requested.
std::string unjudged_time(const FailOn& fail_on, const TargetSide& before,
                          const TargetSide& after);

}  // namespace shardplan
