// SPDX-License-Identifier: Apache-2.0
// Colours and glyphs: how a Style changes the text that is written with it.
//
// Colour repeats what the words say and never carries meaning alone.
#pragma once

#include <string>
#include <string_view>

#include "report/report.h"

namespace shardplan {

enum class Paint : uint8_t { Plain, Bold, Dim, Error, Warning, Help, Good };

// Returns `text` between the terminal's escapes for `paint`, or `text`
// unchanged without colour.
std::string painted(std::string_view text, Paint paint, const Style& style);

// The characters with which tables and diagnostics are drawn.
struct Glyphs {
  std::string_view times;     // between dimensions
  std::string_view rule;      // above totals
  std::string_view block;     // of a bar
  std::string_view ellipsis;  // for omitted text
  std::string_view nothing;   // an absent value
  std::string_view micro;     // the prefix of microseconds
};
const Glyphs& glyphs(const Style& style);

// Returns a bar of `width` columns for a fraction of 1: at least one column for
// more than nothing.
std::string bar_text(double fraction, int width, std::string_view glyph);

// Returns the form of a text from a file that people see: printable() and,
// without Unicode, our own signs (`×`, `→`, ...) in ASCII.
std::string shown(std::string_view text, const Style& style);

}  // namespace shardplan
