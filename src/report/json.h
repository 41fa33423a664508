// SPDX-License-Identifier: Apache-2.0
// Cells as JSON values, appended to a string.
//
// Integers are written as integers whatever their size, doubles with the fewest
// digits that read back the same, what is not finite as null. A spec is a list
// with null, "axis" or ["a", "b"] per dimension; `[]` and `[null]` differ. Text
// is written by append_printable_json (base/text.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/report.h"

namespace shardplan {

void append_json(std::string& out, const Cell& cell);
void append_json_integer(std::string& out, int64_t number);
void append_json_double(std::string& out, double number);
// A sentence: what is not printable is escaped as people see it, `\\x1b` in
// JSON for an escape character, so that all formats quote names alike.
void append_prose_json(std::string& out, std::string_view text);

}  // namespace shardplan
