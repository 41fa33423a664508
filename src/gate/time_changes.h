// SPDX-License-Identifier: Apache-2.0
// What a change does to the time of a step, a token or a prompt
// (cost/step_time.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gate/changes.h"
#include "gate/fail_on.h"

namespace shardplan {

// A part of it before and after; empty on a side that does not have it.
struct TimeChange {
  struct Side {
    Seconds seconds;
    double exposed = 0;  // of the estimate, not hidden
    bool operator==(const Side&) const = default;
  };
  std::string part;  // "products"; TargetSide::timed is the total
  std::optional<Side> before;
  std::optional<Side> after;
};
// Parts that differ, in their order, and the total last; none where nothing
// differs or a side has no time.
std::vector<TimeChange> time_part_changes(const TargetSide& before,
                                          const TargetSide& after);

// The estimate and its ends, where they differ or one side has no time.
void add_time_changes(const TargetSide& before, const TargetSide& after,
                      std::vector<GateChange>& changes);

// Whether it takes too much longer, or a time that was there is gone. A
// time that the base did not ask for is not a growth.
bool takes_too_long(const FailOn& fail_on, const GateChange& change);

// Why `time>P%` cannot be judged, since there is no time before the change; ""
// where it can, or is not asked for.
std::string unjudged_time(const FailOn& fail_on, const TargetSide& before,
                          const TargetSide& after);

}  // namespace shardplan
