// SPDX-License-Identifier: Apache-2.0
// `explain --algorithm ring --ranks 4`: the schedule of a collective, drawn
// with a row per step and a column per sending rank.
//
//   step  rank 0  rank 1  rank 2
//      1  2 → +1  0 → +2  1 → +0
//      2  1 → +1  2 → +2  0 → +0
//      3  0 → 1   1 → 2   2 → 0
//
// A cell shows which chunks the rank sends and to which rank, with a `+` if the
// receiver adds them. Parts that do not fit are omitted, and a line says how
// many.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "cli/commands/requests.h"
#include "comm/collective.h"
#include "report/report.h"

namespace shardplan::cli {

// Returns what every rank sends in each step, and to which ranks.
StepChart chart_of(const Schedule& schedule);

// `explain --algorithm ring --ranks 4`: the schedule of a collective, and how
// much it sends compared with the minimum of any algorithm.

std::vector<std::string> algorithm_names();
std::vector<std::string> collective_names();

// Returns empty, with the reason reported (SP010), if the number of ranks is
// missing or too large to draw, or if the algorithm does not support the
// collective for that many ranks.
//
// REQUIRES: request.algorithm is set.
std::optional<Report> algorithm_report(const ExplainRequest& request,
                                       Diagnostics& diags);

}  // namespace shardplan::cli
