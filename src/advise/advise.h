// SPDX-License-Identifier: Apache-2.0
// Advisor: finds, for each finding, the nearest legal changes that remove it.
//
// A fix is proposed only after a trial of it (advise/what_if.h): the finding is
// gone, there is no new error, and there are fewer findings. Its bytes are
// those measured in the trial. Findings are processed in order, errors first,
// while the work stays within a bound that is the same for every model and
// machine. Beyond that bound, or if no change helps, a finding retains its
// general help.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "advise/what_if.h"
#include "base/diagnostic.h"

namespace shardplan {

// The findings of the plan: diagnostics [first, end).
struct AdvisedFindings {
  size_t first = 0;
  size_t end = 0;
  // Selects the findings to find fixes for; if empty, all of them.
  std::function<bool(const Diagnostic&)> is_asked = {};
  // If the work ends before the findings do, tries rule changes for the rest
  // many at a time. This is for callers that want an edit for each finding and
  // check the combined effect themselves.
  bool together = false;
};

// Fills `fixes` of the findings, and replaces their help by the fixes to try
// first. Returns the work spent (WhatIf::work).
int64_t advise(const Planned& planned, const AdvisedFindings& which,
               Diagnostics& diags);

}  // namespace shardplan
