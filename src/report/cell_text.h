// SPDX-License-Identifier: Apache-2.0
// Cells as people read them: `31.3 MiB`, `2048 × 256`, `P(fsdp, tp)`, `89.3 %`.
//
// Used by every format for people, so that a value looks the same everywhere.
// With Style::exact, numbers are written as JSON has them (report/json.h).
#pragma once

#include <string>

#include "report/report.h"

namespace shardplan {

// One line, printable. An absent value is a dash.
std::string cell_text(const Cell& cell, const Style& style);

}  // namespace shardplan
