// SPDX-License-Identifier: Apache-2.0
// What an engine does with each device, and what it serves, in reports of
// `analyze` and `check`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/report.h"
#include "serve/serving.h"

namespace shardplan::cli {

// Weights, what else the engine takes and what is left for the cache; what that
// holds; stages; degrees. They refer to `serving`.
std::vector<Table> engine_tables(const Serving& serving);

using SummaryEntries = std::vector<std::pair<std::string, Cell>>;
// Adds what the engine does; the views are then those of its layout.
void add_engine_summary(const Serving& serving, SummaryEntries& summary);
std::vector<std::string> engine_notes(const Serving& serving);

}  // namespace shardplan::cli
