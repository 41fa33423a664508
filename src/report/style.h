// SPDX-License-Identifier: Apache-2.0
// Colours and glyphs: what a Style means for the text written under it.
//
// Colour repeats what the words say and is never the only carrier of meaning.
#pragma once

#include <string>
#include <string_view>

#include "report/report.h"

namespace shardplan {

enum class Paint : uint8_t { Plain, Bold, Dim, Error, Warning, Help, Good };

// `text` between the terminal's escapes for `paint`; as it is without colour.
std::string painted(std::string_view text, Paint paint, const Style& style);

// The signs that tables and diagnostics are drawn with.
struct Glyphs {
  std::string_view times;     // between dimensions
  std::string_view rule;      // above totals
  std::string_view block;     // of a bar
  std::string_view ellipsis;  // for what was left out
  std::string_view nothing;   // an absent value
  std::string_view micro;     // of a second
};
const Glyphs& glyphs(const Style& style);

// What people are shown for a text that may come from a file: printable(), and
// without Unicode our own signs (`×`, `→`, ...) in ASCII.
std::string shown(std::string_view text, const Style& style);

}  // namespace shardplan
