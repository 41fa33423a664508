// SPDX-License-Identifier: Apache-2.0
// Diagnostics for people: source lines with marks, whole findings, lines for
// editors.
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
// What the file holds cannot harm the terminal: tabs are four blanks, controls
// and invalid bytes are escaped. A line that is too wide (a manifest may be one
// line of 100 MB) is cut to a window around its marks; the work done depends on
// the width of the window, not of the line.

// Bytes [begin, end) of a line, with what to say about them (may be empty).
struct Mark {
  size_t begin = 0;
  size_t end = 0;
  std::string text;
  bool primary = false;  // underlined with ^, else with -
};

// True when one window of `width` columns shows the bytes [begin, end) whole.
bool fits_window(std::string_view line, size_t begin, size_t end, int width);

// The source, then the lines under it; none ends in a blank. `paint` is that of
// primary marks. REQUIRES: marks not empty, in order of `begin`.
std::vector<std::string> draw_snippet(std::string_view line,
                                      std::span<const Mark> marks, int width,
                                      Paint paint, const Style& style);

// The start of a line, for context.
std::string draw_line(std::string_view line, int width, const Style& style);

// Diagnostics for people: title, place, source line with carets, facts, help.

// Each diagnostic as in
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
// False once the sink refuses more.
bool write_diagnostics(const Diagnostics& diags, const Style& style,
                       const TextSink& sink);

// Message, facts and help in lines, without places, as people read them.
std::string message_text(const Diagnostic& diagnostic);

// `file:line:column: error[SP101] message`, one line each, as editors parse.
bool write_concise(const Diagnostics& diags, const TextSink& sink);

}  // namespace shardplan
