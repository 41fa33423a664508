// SPDX-License-Identifier: Apache-2.0
// The report of `shardplan plan`.
#pragma once

#include <array>
#include <cstdint>

#include "report/report.h"
#include "session/planning/planner.h"

namespace shardplan::cli {

// Plans that are this much slower than the first are called as good: what is
// measured twice differs by as much.
inline constexpr double kTie = 0.10;

// What a plan to serve with says besides; null of a plan to train with.
inline constexpr std::array kServingKeys = {
    "expert_parallel",     "dp_attention",          "concurrency",
    "time_to_first_token", "time_per_output_token", "sequences"};

// Headline, summary, tables and notes; `planned` must outlive the report.
void add_plan(const PlannedTraining& planned, Report& report);

}  // namespace shardplan::cli
