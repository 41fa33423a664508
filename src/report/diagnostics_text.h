// SPDX-License-Identifier: Apache-2.0
// Writes diagnostics for people: source lines with marks, whole findings, and
// one-line findings for editors.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "report/report.h"
#include "report/style.h"

namespace shardplan {

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

// Diagnostics for people: title, place, source line with carets, facts, help.

// Writes each diagnostic like this one:
//
//   warning[SP203]: dimension 0 of `w` is not divisible by axis `tp`
//    --> rules.yaml:3:42
//     |
//   3 |   - ["w", [tp, fsdp]]
//     |            ^^ shards dimension 0
//     |
//     = dimension 0 is 32001; axis `tp` is 2; 32001 mod 2 = 1
//   help: pad the dimension to 32002
//
// Returns false once the sink refuses more text.
bool write_diagnostics(const Diagnostics& diags, const Style& style,
                       const TextSink& sink);

// Returns message, facts and help as lines for people, without places.
std::string message_text(const Diagnostic& diagnostic);

// Writes `file:line:column: error[SP101] message`, one line per diagnostic, in
// the format that editors parse.
bool write_concise(const Diagnostics& diags, const TextSink& sink);

}  // namespace shardplan
