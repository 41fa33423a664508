// SPDX-License-Identifier: Apache-2.0
// Texts and tables about the memory and time of a training step.
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

inline DurationBracket duration_bracket(const Seconds& seconds) {
  return {seconds.lower, seconds.estimate, seconds.upper};
}
// Returns "5.32 s (2.27 s to 18.2 s)".
std::string range_text(const Seconds& seconds);

// Returns `memory_bracket` and the numbers that it was computed from.
std::vector<std::pair<std::string, Cell>> step_summary(
    const StepAnswer& answer);
// Returns the text of fit_text() for a training step.
//
// REQUIRES: a limit.
std::string step_fit_text(const StepAnswer& answer, const Fit& fit,
                          const DeviceLimit& limit);
// Adds a line with the step time, or with the reason why it is not known.
void add_step_text(const StepAnswer& answer, Report& report);
// Adds times of inference to the summary and as lines and, for `analyze`, as
// tables; the answer must outlive the report.
//
// REQUIRES: the answer has times.
enum class TimeTables : uint8_t { Shown, LeftOut };
void add_inference(const MemoryAnswer& answer, Mode mode, TimeTables tables,
                   Report& report);
// Adds the step to the summary, tables and notes of a report; the answer must
// outlive it.
void add_step(const StepAnswer& answer, const Budget& budget, const Fit& fit,
              Report& report);

}  // namespace shardplan::cli
