// SPDX-License-Identifier: Apache-2.0
// A drawing of a schedule: a row per step, a column per sending rank.
//
//   step  rank 0  rank 1  rank 2
//      1  2 → +1  0 → +2  1 → +0
//      2  1 → +1  2 → +2  0 → +0
//      3  0 → 1   1 → 2   2 → 0
//
// A cell says which chunks the rank sends and to whom, with a `+` where they
// are added. What does not fit is left out, and how much is said.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "cli/commands/explain.h"
#include "comm/collective.h"
#include "report/report.h"

namespace shardplan::cli {

// Lines of at most style.width columns where cells can be as narrow. `expand`:
// nothing is left out; ranks that do not fit are drawn below.
std::vector<std::string> draw_schedule(const Schedule& schedule,
                                       const Style& style, bool expand);

// `explain --algorithm ring --ranks 4`: the schedule of a collective, and what
// it sends beside what any algorithm must.

std::vector<std::string> algorithm_names();
std::vector<std::string> collective_names();

// REQUIRES: request.algorithm. Empty, with the reason reported (SP010), when
// the number of ranks is missing or too large to draw, or the algorithm does
// not do that collective over so many ranks.
std::optional<Report> algorithm_report(const ExplainRequest& request,
                                       bool expand, Diagnostics& diags);

}  // namespace shardplan::cli
