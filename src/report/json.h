// SPDX-License-Identifier: Apache-2.0
// Appends cells to a string as JSON values.
//
// Integers of any size are written as integers, doubles with the fewest digits
// that read back as the same number, and numbers that are not finite as null. A
// spec is a list with null, "axis" or ["a", "b"] per dimension; `[]` and
// `[null]` differ. Text is written by append_printable_json (base/text.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/report.h"

namespace shardplan {

void append_json(std::string& out, const Cell& cell);
void append_json_number(std::string& out, int64_t number);
void append_json_number(std::string& out, double number);
// Appends a sentence. Characters that are not printable are escaped in the form
// that people see, `\\x1b` in JSON for an escape character, so that all formats
// quote names in the same way.
void append_prose_json(std::string& out, std::string_view text);

}  // namespace shardplan
