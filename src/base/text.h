// SPDX-License-Identifier: Apache-2.0
// Words and numbers for people: sizes, counts, nearest names, widths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardplan {

// "293.7 MiB", "4.00 KiB", "512 B": three or four digits, powers of 1024.
std::string bytes_text(double bytes);
// "89.3 %" for 0.893; only nothing is 0.0 %, and only everything 100.0 %
// ("<0.1 %", ">99.9 %"). REQUIRES: finite.
std::string percent_text(double fraction);
// "1,100,052,480"
std::string count_text(int64_t count);
// "8.03 billion", "124 million"; below a million as count_text.
std::string short_count_text(int64_t count);
// "1 parameter", "3 parameters"
std::string plural(int64_t count, std::string_view noun);
// "1, 2, 4 or 8"; at most `limit` items, then "..."
std::string list_text(std::span<const int64_t> numbers, size_t limit = 12);

// The candidate with the smallest edit distance, if near enough to be what was
// meant (at most a third of the word's length, and at least one).
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates);

// Columns that a terminal needs for UTF-8 text: East Asian wide characters and
// emoji take two, combining marks none.
int display_width(std::string_view text);
// Shortens to `width` columns by replacing the middle with `…` (or "..").
std::string elide_middle(std::string_view text, int width, bool unicode);
// Appends blanks up to `width` columns; prepends them when `right`.
std::string pad(std::string_view text, int width, bool right = false);

// Decodes one code point at `at`, advancing it; U+FFFD for invalid bytes.
char32_t decode_utf8(std::string_view text, size_t& at);
bool is_valid_utf8(std::string_view text);
// False for control characters and for marks that reorder or break what a
// reader sees: line separators, bidirectional controls, the byte order mark.
bool is_printable(char32_t code_point);
// Escapes what is not printable as \n, \x1b, \u{202e} and invalid bytes as
// \xff, so that a name from a file cannot write to the terminal.
std::string printable(std::string_view text);

}  // namespace shardplan
