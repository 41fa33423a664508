// SPDX-License-Identifier: Apache-2.0
// What a training step holds, in the report of a command.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/partition_axis.h"
#include "evaluate/inference.h"
#include "memory/budget.h"
#include "report/report.h"
#include "session/memory_answer.h"

namespace shardplan::cli {

// `memory_bracket`, and what it was worked out from.
std::vector<std::pair<std::string, Cell>> step_summary(
    const StepAnswer& answer);
// fit_text() of a training step. REQUIRES: a limit.
std::string step_fit_text(const StepAnswer& answer, const Fit& fit,
                          const DeviceLimit& limit);
// How long it takes, in a line, or why that is not known.
void add_step_text(const StepAnswer& answer, Report& report);
// Times of inference in the summary, in lines and, for `analyze`, as tables;
// the answer must outlive the report. REQUIRES: it has them.
enum class TimeTables : uint8_t { Shown, LeftOut };
void add_inference(const MemoryAnswer& answer, Mode mode, TimeTables tables,
                   Report& report);
// Into the summary, the tables and the notes of a report; the answer must
// outlive it.
void add_step(const StepAnswer& answer, const Budget& budget, const Fit& fit,
              Report& report);

}  // namespace shardplan::cli
