// SPDX-License-Identifier: Apache-2.0
// Character classes and escapes of Python's `re`, in RE2's spelling.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "resolve/python_regex.h"

namespace shardplan {

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
