// SPDX-License-Identifier: Apache-2.0
// The data of the table of parameters in an HTML report, which its script
// filters and explains.
#pragma once

#include <string>

#include "report/report.h"

namespace shardplan {

// Returns the table whose rows are named, if the report has one.
const Table* named_table(const Report& report);

// Returns a row for each distinct rest, with how many parameters have it, the
// name of the first, and what browsers show of each. Browsers that cannot open
// the data show this table, and so does paper.
//
// REQUIRES: named_table() is not null.
Table alike_table(const Report& report);

// Returns a JSON object:
//
//   title        what a name is: "parameter"
//   columns      titles of the cells
//   rests        distinct rows without their names: `cells` (texts), `numbers`
//                (null or a number to sort by), and as JSON `spec`, `shape`,
//                `view` and `dealt`
//   names        all names, one per line
//   rest         per name, an index into `rests`
//   rules        `pattern`, `place` of each rule
//   corrections  per rest, as sentences
//   findings     `title`, `help`, and `names`: pairs of first index and count
//   mesh         pairs of axis and size
//
// REQUIRES: named_table() is not null.
std::string page_data(const Report& report, const Style& style);

}  // namespace shardplan
