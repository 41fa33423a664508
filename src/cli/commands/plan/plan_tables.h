// SPDX-License-Identifier: Apache-2.0
// The report of `shardplan plan`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "report/report.h"
#include "report/svg_plot.h"
#include "session/planning/planner.h"

namespace shardplan::cli {

// Plans that are this much slower than the first are called as good: what is
// measured twice differs by as much.
inline constexpr double kTie = 0.10;

// What a plan to serve with says besides; null of a plan to train with.
inline constexpr std::array kServingKeys = {
    "expert_parallel",     "dp_attention",          "concurrency",
    "time_to_first_token", "time_per_output_token", "sequences"};

// The tables of --why-not, for programs and for people. A row: the candidate,
// its verdict, the reason, and a value or nothing.
void add_why_not_rows(std::vector<Row> rows, Report& report);

// What the fastest plan of each amount of memory takes, of what was priced.
Plot memory_and_time(const PlannedTraining& planned);

// Headline, summary, tables and notes; `planned` must outlive the report.
void add_plan(const PlannedTraining& planned, Report& report);

}  // namespace shardplan::cli
