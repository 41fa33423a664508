// SPDX-License-Identifier: Apache-2.0
// Writes cells as people read them: `31.3 MiB`, `2048 × 256`, `P(fsdp, tp)`,
// `89.3 %`.
//
// Every format for people uses these functions, so that a value looks the same
// everywhere. With Style::exact, numbers are written as in JSON
// (report/json.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/output.h"
#include "report/report.h"

namespace shardplan {

// Returns the cell as one printable line. An absent value is a dash.
std::string cell_text(const Cell& cell, const Style& style);

// Wraps at blanks into lines of at most `width` columns; a longer word has its
// own line.
std::vector<std::string> wrapped_words(std::string_view text, int width);

// A table as aligned columns.
//
// The rows are produced twice, once to measure the columns and once to print
// them, so their number does not affect memory. If the columns do not fit
// Style::width, the elastic ones lose the middle of their texts, the widest
// first. No line ends in a blank. An empty column is omitted, and a table under
// a title is indented.

// Prints the table, after an empty line if `apart`. Prints nothing and returns
// false if the table has no rows.
bool print_table(const Table& table, const Style& style, bool apart,
                 Output& out);

}  // namespace shardplan
