// SPDX-License-Identifier: Apache-2.0
// `explain --algorithm ring --ranks 4`: the schedule of a collective, and what
// it sends beside what any algorithm must.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "cli/options.h"
#include "report/report.h"

namespace shardplan::cli {

std::vector<std::string> algorithm_names();
std::vector<std::string> collective_names();

// REQUIRES: options.algorithm. Empty, with the reason reported (SP010), when
// the number of ranks is missing or too large to draw, or the algorithm does
// not do that collective over so many ranks.
std::optional<Report> algorithm_report(const Options& options,
                                       Diagnostics& diags);

}  // namespace shardplan::cli
