// SPDX-License-Identifier: Apache-2.0
// How many columns of a terminal a code point takes.
//
// Source of the tables: the Unicode Character Database 14.0, properties
// General_Category and East_Asian_Width (UAX #11).
#pragma once

namespace shardplan {

// 2 for East Asian wide characters and emoji; 0 for combining marks, format
// characters and controls; 1 for everything else.
int code_point_width(char32_t code_point);

}  // namespace shardplan
