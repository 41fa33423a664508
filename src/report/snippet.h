// SPDX-License-Identifier: Apache-2.0
// A line of a user's file with marks under it:
//
//   - ["embed", [tp, fsdp]]
//      -----     ^^ shards dimension 0
//      |
//      rule 3
//
// The contents of the file cannot harm the terminal: a tab is shown as four
// blanks; control characters and invalid bytes are escaped. A line that is too
// wide (a manifest may be one line of 100 MB) is cut to a window around its
// marks. The time to draw it depends on the width of the window, not on that of
// the line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "report/style.h"

namespace shardplan {

// Bytes [begin, end) of a line, and a text about them, which may be empty.
struct Mark {
  size_t begin = 0;
  size_t end = 0;
  std::string text;
  bool primary = false;  // underlined with ^, else with -
};

// Returns whether one window of `width` columns shows all bytes [begin, end).
bool fits_window(std::string_view line, size_t begin, size_t end, int width);

// Returns the source line, then the lines under it; none ends in a blank.
// Primary marks are drawn in `paint`.
//
// REQUIRES: `marks` is not empty and ordered by `begin`.
std::vector<std::string> draw_snippet(std::string_view line,
                                      std::span<const Mark> marks, int width,
                                      Paint paint, const Style& style);

// Returns the start of a line, for context.
std::string draw_line(std::string_view line, int width, const Style& style);

}  // namespace shardplan
