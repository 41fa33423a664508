// SPDX-License-Identifier: Apache-2.0
// The report of `shardplan plan`.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"
#include "session/planning/planner.h"

namespace shardplan::cli {

// Plans slower than the fastest by at most this fraction are reported as
// equally good: repeated measurements differ by as much.
inline constexpr double kTie = 0.10;

// The keys that only serving plans have; they are null for training plans.
inline constexpr std::array kServingKeys = {
    "expert_parallel",     "dp_attention",          "concurrency",
    "time_to_first_token", "time_per_output_token", "sequences"};

// A plan for programs: all keys of training plans, then those of serving plans.
using NamedCells = std::vector<std::pair<const char*, Cell>>;

// Returns "2 tie" for the second plan (rank 1) if it is as good as the first.
std::string rank_text(size_t rank, bool tie);
// Returns a plan's cells after those of its rank.
NamedCells ranked_cells(size_t rank, bool tie, NamedCells cells);
// REQUIRES: there are plans.
Table plans_table(const std::vector<NamedCells>& plans);
// Adds the best plan to the summary; nulls if none is `found`.
void add_best(const NamedCells& best, bool found, Report& report);

// Adds the tables of --why-not, for programs and for people. A row has the
// candidate, its verdict, the reason, and a value or nothing.
void add_why_not_rows(std::vector<Row> rows, Report& report);

// Plots, of the plans that were priced, the fastest for each amount of memory.
Plot memory_and_time(const PlannedTraining& planned);

// Adds headline, summary, tables and notes; `planned` must outlive the report.
void add_plan(const PlannedTraining& planned, Report& report);

}  // namespace shardplan::cli
