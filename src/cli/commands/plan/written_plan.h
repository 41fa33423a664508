// SPDX-License-Identifier: Apache-2.0
// Hands a plan over to other commands: as the command that checks it, and as a
// configuration (`--write-config`) with a target for `check` and `gate`.
#pragma once

#include <vector>

#include "cli/commands.h"
#include "report/report.h"
#include "session/planning/question.h"

namespace shardplan::cli {

// Adds the flags of this command line that also apply to `analyze`, except
// those already in `flags`.
void add_given_flags(const Options& options, std::vector<PlanFlag>& flags);

// Sets the command as the report's next step and writes the configuration.
// Returns false, with the reason reported (SP001, SP010), if the configuration
// cannot be written or cannot express the plan.
bool hand_over(Context& context, const std::vector<PlanFlag>& flags,
               Report& report);

}  // namespace shardplan::cli
