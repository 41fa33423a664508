// SPDX-License-Identifier: Apache-2.0
// A plan as others take it up: the command that judges it, and a configuration
// (`--write-config`) with a target that `check` and `gate` judge.
#pragma once

#include <vector>

#include "cli/commands.h"
#include "report/report.h"
#include "session/planning/question.h"

namespace shardplan::cli {

// Adds what was given here and counts for `analyze` too, but for what is there
// already.
void add_given_flags(const Options& options, std::vector<PlanFlag>& flags);

// The command becomes the report's next step. False, with the reason reported
// (SP001, SP010): the configuration cannot be written, or could not say the
// same.
bool hand_over(Context& context, const std::vector<PlanFlag>& flags,
               Report& report);

}  // namespace shardplan::cli
