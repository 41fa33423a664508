// SPDX-License-Identifier: Apache-2.0
// Python's `re` patterns in RE2's spelling, with the meaning Python gives them.
//
// Rules are written for re.search. Most patterns mean the same in RE2; some
// only need another spelling (`\Z`, `{,n}`, `(?#..)`, `\u00e9`, `[[:alpha:]]`,
// the Unicode classes), and some RE2 cannot express (look-around,
// back-references, atomic groups). What Python itself rejects is rejected too.
// Source: Python 3.11's re._parser; RE2 2022-06's syntax page.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace shardplan {

// Why a pattern cannot be used; [begin, end) is the fragment, in bytes.
struct PatternProblem {
  size_t begin = 0;
  size_t end = 0;
  std::string message;  // "look-ahead is not supported"
  std::string help;     // may be empty
};

struct TranslatedPattern {
  std::string re2;
  // Set where RE2 sees only ASCII though Python would look at all of Unicode:
  // `\b`, `\B`, `\W` inside a class. The construct's spelling.
  std::string ascii_only;
};

// `plain_names`: all names to be searched are printable ASCII, so Unicode
// classes and the newline before the end need not be spelled out (the shorter
// automata are faster).
std::variant<TranslatedPattern, PatternProblem> translate_pattern(
    std::string_view pattern, bool plain_names);

// Character classes and escapes of Python's `re`, in RE2's spelling.

// `\d \D \s \S \w \W`.
bool is_class_escape(char c);

// What stands between brackets for `\d` and its like: "0-9". `ascii`: Python's
// set under its flag `a`, which also serves for names that are ASCII. Empty for
// `\W` over Unicode, which no list of ranges of reasonable length spells.
std::optional<std::string> class_escape_ranges(char c, bool ascii);

// A code point so that RE2 takes it literally, inside brackets or out.
std::string literal(char32_t code);

// The escape at `at` (a backslash), moving `at` behind it: `\n`, `\x41`,
// `\u00e9`, `\07`, `\.`. Refuses what Python refuses, and references to groups.
std::variant<char32_t, PatternProblem> character_escape(
    std::string_view pattern, size_t& at, bool in_class);

struct TranslatedClass {
  std::string re2;
  std::string ascii_only;  // see TranslatedPattern
};

// The class at `at` (a `[`), moving `at` behind its `]`.
std::variant<TranslatedClass, PatternProblem> translate_class(
    std::string_view pattern, size_t& at, bool ascii);

}  // namespace shardplan
