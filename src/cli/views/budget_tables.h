// SPDX-License-Identifier: Apache-2.0
// Tables and notes about memory budgets.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "memory/fit.h"
#include "report/report.h"
#include "session/memory_answer.h"
#include "session/session.h"

namespace shardplan::cli {

// Returns "Memory per device" for people: category, bytes, share; the total
// compared with the limit, and the free memory. `whole`: the report has no
// other table that says whether it fits, such as that of a training step.
Table breakdown_table(const Session& session, const Budget& budget, bool whole);
// Returns the classes of devices with stacked bars, for people, if there are
// several.
Table device_class_table(const Budget& budget);

// Tables for programs: one row per class and category; what all devices store
// by category; leaves by role; gathered bytes; stages.
Table memory_rows(const Budget& budget);
Table memory_totals(const Budget& budget);
// Returns a row per group of parameters if there are several groups.
Table state_table(const Budget& budget, const StateOptions& state,
                  bool for_people);
Table gathered_table(const Budget& budget, bool for_people);
Table stages_table(const Budget& budget);
// Returns how much `--trainable` trains and freezes: "224 of 515 parameters are
// trained: 6,815,744 of 8,037,076,992 elements, 13.0 MiB of 15.0 GiB; the
// others are frozen, without gradient and state".
std::string training_note(const Budget::Part& trained,
                          const Budget::Part& frozen);
Table training_table(const Budget& budget);

// Returns `memory_needed`, `memory_limit`, `headroom` and `fits`. Without a
// limit the last three are null; `fits` is also null if it may fit.
std::vector<std::pair<std::string, Cell>> fit_summary(const Fit& fit);

// Returns "fits 79.1 GiB: at least 18.9 GiB free".
//
// REQUIRES: a limit.
std::string fit_text(const Fit& fit, const DeviceLimit& limit);
// Returns the same for memory outside a step: training state, or weights and
// cache. Also says which memory is not counted.
//
// REQUIRES: a limit.
std::string state_fit_text(const MemoryAnswer& answer, Mode mode);

// Returns lines about what the numbers omit or assume.
std::vector<std::string> budget_notes(const Context& context,
                                      const MemoryAnswer& answer);

}  // namespace shardplan::cli
