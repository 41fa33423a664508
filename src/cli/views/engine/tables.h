// SPDX-License-Identifier: Apache-2.0
// Tables and notes about a serving engine in the reports of `analyze` and
// `check`: the memory it uses on each device, and what it serves.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/report.h"
#include "serve/serving.h"

namespace shardplan::cli {

// Returns the tables of memory (weights, other memory of the engine, and the
// rest for the cache), of the cache's capacity, of stages and of degrees. They
// refer to `serving`.
std::vector<Table> engine_tables(const Serving& serving);

using SummaryEntries = std::vector<std::pair<std::string, Cell>>;
// Adds what the engine does, and replaces the summary's views by those of the
// engine's layout.
void add_engine_summary(const Serving& serving, SummaryEntries& summary);
std::vector<std::string> engine_notes(const Serving& serving);

}  // namespace shardplan::cli
