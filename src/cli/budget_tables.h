// SPDX-License-Identifier: Apache-2.0
// The parts of reports about budgets.
//
// Tables refer to the session and the answer: both must outlive the report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/budget.h"
#include "cli/session.h"
#include "report/report.h"

namespace shardplan::cli {

// "Memory per device" for people: category, bytes, share; the total against
// the limit, and what is left.
Table breakdown_table(const Session& session, const Budget& budget);
// Classes of devices with stacked bars, for people, when there are several.
Table device_class_table(const Budget& budget);

// For programs: one row per class and category; what all devices store by
// category; leaves by role; what is gathered; stages.
Table memory_rows(const Budget& budget);
Table memory_totals(const Budget& budget);
Table state_table(const Budget& budget, bool for_people);
Table gathered_table(const Budget& budget, bool for_people);
Table stages_table(const Budget& budget);

// `memory_needed`, `memory_limit`, `headroom`, `fits`; the last three null
// without a limit.
std::vector<std::pair<std::string, Cell>> budget_summary(const Budget& budget);

// What the numbers leave out or assume, as lines.
std::vector<std::string> budget_notes(const Context& context,
                                      const BudgetAnswer& answer);

}  // namespace shardplan::cli
