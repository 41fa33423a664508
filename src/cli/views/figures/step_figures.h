// SPDX-License-Identifier: Apache-2.0
// Figures of a step: its memory, moment by moment, and its time. What they
// refer to must outlive the report.
#pragma once

#include <string>

#include "activations/bracket.h"
#include "cost/step_time.h"
#include "memory/budget.h"
#include "report/report.h"

namespace shardplan::cli {

// Adds "memory", the three ends of the bracket; "moments", the memory while
// forward, backward and the optimizer run; and "stages", those of a pipeline.
void add_memory_figures(const MemoryBracket& bracket, const Budget& budget,
                        Report& report);

// "time": the parts of a `what`, "step" or "token", and how much of each does
// not hide.
Figure time_figure(const StepTime& time, const std::string& what);

}  // namespace shardplan::cli
