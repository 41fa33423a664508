// SPDX-License-Identifier: Apache-2.0
// Text for people: sizes, counts, names close to a misspelling, display widths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardplan {

// Returns "293.7 MiB", "4.00 KiB" or "512 B": three or four digits, powers of
// 1024.
std::string bytes_text(double bytes);
// The same for an integer count of bytes, which may have 128 bits.
template <typename Count>
requires(!std::is_floating_point_v<Count>) std::string bytes_text(Count bytes) {
  return bytes_text(static_cast<double>(bytes));
}
// Returns "89.3 %" for 0.893. Only 0 gives "0.0 %" and only 1 gives "100.0 %";
// values close to them give "<0.1 %" and ">99.9 %". REQUIRES: finite.
std::string percent_text(double fraction);
// Returns "5.51 s", "762 ms", "13.9 us" or "0 s": three digits. `micro` is the
// prefix of microseconds. REQUIRES: finite.
std::string seconds_text(double seconds, std::string_view micro = "u");
// Returns "1,100,052,480".
std::string count_text(int64_t count);
// Returns "8.03 billion" or "124 million"; below a million the same as
// count_text.
std::string short_count_text(int64_t count);
// Returns "1 parameter" or "3 parameters".
std::string plural(int64_t count, std::string_view noun);
// Joins texts with `between`, or with `last` between the last two.
std::string joined(std::span<const std::string> texts, std::string_view between,
                   std::string_view last);
std::string joined(std::span<const std::string> texts,
                   std::string_view between);
// Returns "`a`" without escapes: renderers escape (printable below).
std::string in_backticks(std::string_view text);
// Returns "`a`, `b` and `c`".
std::string quoted_names(std::span<const std::string> names,
                         std::string_view last = " and ");
// Returns "`a`, `b`, `c`, `d`, `e` and 7 more".
std::string some_names(std::span<const std::string> names, size_t most = 5);
// Returns "1, 2, 4 or 8"; after `limit` items "...".
std::string list_text(std::span<const int64_t> numbers, size_t limit = 12);

// Returns the candidate with the smallest edit distance, if it is near enough
// to be a misspelling: at most a third of the word's length, but one edit is
// always allowed.
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates);

// Returns whether `text` matches `pattern`, in which `*` stands for any text.
bool matches_glob(std::string_view pattern, std::string_view text);

// Returns a regular expression that matches only this text.
std::string escape_pattern(std::string_view text);
// Replaces each number and its unit outside of backticks by `#`: "the plan
// needs 1.5 GiB per device" becomes "the plan needs # per device".
std::string without_numbers(std::string_view sentence);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns the columns that UTF-8 text occupies on a terminal: two for East
// Asian wide characters and emoji, none for combining marks.
int display_width(std::string_view text);
// Shortens to `width` columns by replacing the middle with `…` (or "..").
std::string elide_middle(std::string_view text, int width, bool unicode);
// Appends blanks up to `width` columns; prepends them if `right`.
std::string pad(std::string_view text, int width, bool right = false);

inline constexpr char32_t kReplacement = 0xFFFD;

// Decodes the code point at `at` and advances `at`; U+FFFD for invalid bytes.
char32_t decode_utf8(std::string_view text, size_t& at);
bool is_valid_utf8(std::string_view text);
// Returns false for control and format characters and line separators. These
// act on a terminal, reorder or hide text, or are ignored when texts are
// compared.
bool is_printable(char32_t code_point);
// Returns whether the text is all printable ASCII, as most texts are: one
// column per byte.
bool is_plain_ascii(std::string_view text);
// Escapes unprintable characters as \n, \x1b, \u{202e}, invalid bytes as \xff
// and a `#` after another as \x23, so that a name from a file can neither
// control the terminal nor send a command to the runner of a CI job
// (report/runner_commands.h). Texts are escaped only when they are rendered
// (src/report); before that they are composed, compared and searched unescaped.
// Escaping an escaped text changes nothing.
std::string printable(std::string_view text);
// Escapes XML markup, both in text and in quoted attributes. Texts from files
// must pass through printable() first: XML cannot represent control characters.
std::string xml_text(std::string_view text);

// Display widths of code points, in terminal columns.
//
// Source of the tables: the Unicode Character Database 14.0, properties
// General_Category and East_Asian_Width (UAX #11).

// Returns 2 for East Asian wide characters and emoji, 0 for combining marks,
// format characters and controls, and 1 for everything else.
int code_point_width(char32_t code_point);

// Byte sizes in user input.

// Parses "80GiB" (2^30), "95.7GB" (10^9), "81559 MiB" or "1048576" (bytes),
// rounded down to whole bytes. Empty if it is not a size or not within [1,
// 2^62).
std::optional<int64_t> parse_bytes(std::string_view text);

// The help for a size that cannot be parsed.
inline constexpr std::string_view kByteSizeHelp =
    "write sizes like `80GiB` (2^30 bytes) or `95.7GB` (10^9)";

// JSON strings.

// Appends `text`, which must be valid UTF-8, in quotes, as specified in RFC
// 8785 section 3.2.2.2: only what must be escaped is.
void append_json_string(std::string& out, std::string_view text);
// The same for output. It accepts any bytes: invalid UTF-8 becomes U+FFFD, and
// unprintable characters become \u escapes. A `#` after another is also
// escaped, since `##[..]` and `##vso[..]` anywhere in a line are commands to
// runners of CI jobs. Apart from replaced bytes, a JSON parser gets the same
// text.
void append_printable_json(std::string& out, std::string_view text);
// Returns whether a `#` precedes `at`, ignoring zero-width characters in
// between, because runners ignore these when they compare texts.
bool follows_hash(std::string_view text, size_t at);

}  // namespace shardplan
