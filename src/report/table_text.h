// SPDX-License-Identifier: Apache-2.0
// Cells as people read them: `31.3 MiB`, `2048 × 256`, `P(fsdp, tp)`, `89.3 %`.
//
// Used by every format for people, so that a value looks the same everywhere.
// With Style::exact, numbers are written as JSON has them (report/json.h).
#pragma once

#include <string>

#include "report/output.h"
#include "report/report.h"

namespace shardplan {

// One line, printable. An absent value is a dash.
std::string cell_text(const Cell& cell, const Style& style);

// One table as aligned columns.
//
// The rows are produced twice, once to measure the columns and once to print
// them, so their number does not matter. Where the columns do not fit
// Style::width, the elastic ones lose the middle of their texts, the widest
// first. No line ends in a blank. A column in which nothing is written is left
// out, and a table under a title is indented.

// Prints nothing, and returns false, when the table has no rows. Otherwise the
// table stands below an empty line if `apart`.
bool print_table(const Table& table, const Style& style, bool apart,
                 Output& out);

}  // namespace shardplan
