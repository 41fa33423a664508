// SPDX-License-Identifier: Apache-2.0
// Words and numbers for people: sizes, counts, nearest names, widths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardplan {

// "293.7 MiB", "4.00 KiB", "512 B": three or four digits, powers of 1024.
std::string bytes_text(double bytes);
// The same for a count of bytes, which may have 128 bits.
template <typename Count>
requires(!std::is_floating_point_v<Count>) std::string bytes_text(Count bytes) {
  return bytes_text(static_cast<double>(bytes));
}
// "89.3 %" for 0.893; only nothing is 0.0 %, and only everything 100.0 %
// ("<0.1 %", ">99.9 %"). REQUIRES: finite.
std::string percent_text(double fraction);
// "5.51 s", "762 ms", "13.9 us", "0 s": three digits. `micro` stands before the
// `s` of microseconds. REQUIRES: finite.
std::string seconds_text(double seconds, std::string_view micro = "u");
// "1,100,052,480"
std::string count_text(int64_t count);
// "8.03 billion", "124 million"; below a million as count_text.
std::string short_count_text(int64_t count);
// "1 parameter", "3 parameters"
std::string plural(int64_t count, std::string_view noun);
// The texts with `between` between them, or `last` between the last two.
std::string joined(std::span<const std::string> texts, std::string_view between,
                   std::string_view last);
std::string joined(std::span<const std::string> texts,
                   std::string_view between);
// "`a`", as it is: renderers escape (printable below).
std::string in_backticks(std::string_view text);
// "`a`, `b` and `c`"
std::string quoted_names(std::span<const std::string> names,
                         std::string_view last = " and ");
// "`a`, `b`, `c`, `d`, `e` and 7 more"
std::string some_names(std::span<const std::string> names, size_t most = 5);
// "1, 2, 4 or 8"; at most `limit` items, then "..."
std::string list_text(std::span<const int64_t> numbers, size_t limit = 12);

// The candidate with the smallest edit distance, if near enough to be what was
// meant (at most a third of the word's length, and at least one).
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates);

// Whether `text` is `pattern`, in which `*` is any text.
bool is_like(std::string_view pattern, std::string_view text);

// The text as a regular expression that matches it alone.
std::string escape_pattern(std::string_view text);
// A sentence with `#` for each number and its unit, but for those in backticks:
// "the plan needs 1.5 GiB per device" is "the plan needs # per device".
std::string without_numbers(std::string_view sentence);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

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
// False for control and format characters and line separators: they act on a
// terminal, reorder or hide what a reader sees, or vanish where texts are
// compared.
bool is_printable(char32_t code_point);
// Nothing but printable ASCII, as most texts are: one column a byte.
bool is_plain_ascii(std::string_view text);
// Escapes what is not printable as \n, \x1b, \u{202e}, invalid bytes as \xff
// and a `#` behind another as \x23, so that a name from a file can neither
// write to the terminal nor command the runner of a CI job
// (report/runner_commands.h). What is shown goes through here where it is
// rendered (src/report) and nowhere before: texts are composed, compared and
// searched as they are. Nothing changes twice.
std::string printable(std::string_view text);
// Escapes what is markup in XML, in text and in quoted attributes. Texts from
// files go through printable() first: XML has no words for control characters.
std::string xml_text(std::string_view text);

// How many columns of a terminal a code point takes.
//
// Source of the tables: the Unicode Character Database 14.0, properties
// General_Category and East_Asian_Width (UAX #11).

// 2 for East Asian wide characters and emoji; 0 for combining marks, format
// characters and controls; 1 for everything else.
int code_point_width(char32_t code_point);

// Sizes in bytes as people write them.

// "80GiB" (2^30), "95.7GB" (10^9), "81559 MiB", "1048576" (bytes), rounded down
// to whole bytes. Empty when it is not a size or not within [1, 2^62).
std::optional<int64_t> parse_bytes(std::string_view text);

// What to tell somebody whose size was not understood.
inline constexpr std::string_view kByteSizeHelp =
    "write sizes like `80GiB` (2^30 bytes) or `95.7GB` (10^9)";

// Strings as JSON spells them.

// Appends `text`, which must be valid UTF-8, in quotes and as RFC 8785 section
// 3.2.2.2 has it: only what must be escaped is.
void append_json_string(std::string& out, std::string_view text);
// The same for what is shown or written for others: it takes any bytes, those
// that are no UTF-8 become U+FFFD, and what is not printable is a \u escape. So
// is a `#` behind another, since `##[..]` and `##vso[..]` anywhere in a line
// are commands to runners of CI jobs. A reader of JSON gets the same text.
void append_printable_json(std::string& out, std::string_view text);
// Whether a `#` stands before `at`, but for what takes no column: runners
// compare texts without it.
bool follows_hash(std::string_view text, size_t at);

}  // namespace shardplan
