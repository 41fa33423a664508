// SPDX-License-Identifier: Apache-2.0
// The report of `shardplan plan --mode decode --engine NAME`.
#pragma once

#include <cstdint>

#include "report/report.h"
#include "session/planning/serving_plan.h"

namespace shardplan::cli {

// Adds headline, summary, tables and notes, with at most `top` plans; `planned`
// must outlive the report.
void add_serving_plan(const PlannedServing& planned, int64_t top,
                      Report& report);

}  // namespace shardplan::cli
