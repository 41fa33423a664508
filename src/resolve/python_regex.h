// SPDX-License-Identifier: Apache-2.0
// Python regexes: Python's `re` patterns in RE2's syntax, with Python's
// meaning.
//
// Rules are written for re.search. Most patterns mean the same in RE2. Some
// only need another spelling (`\Z`, `{,n}`, `(?#..)`, `\u00e9`, `[[:alpha:]]`,
// the Unicode classes), and RE2 cannot express others (look-around,
// back-references, atomic groups). Patterns that Python rejects are rejected
// here as well. Sources: Python 3.11's re._parser; RE2 2022-06's syntax page.
#pragma once

#include <cstddef>
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
  // The spelling of a construct for which RE2 considers only ASCII where Python
  // considers all of Unicode (`\b`, `\B`, `\W` inside a class); else empty.
  std::string ascii_only;
};

// Translates a pattern. `plain_names`: all names to be searched are printable
// ASCII, so the Unicode classes and the newline before the end need not be
// spelled out, which makes the automata smaller and faster.
std::variant<TranslatedPattern, PatternProblem> translate_pattern(
    std::string_view pattern, bool plain_names);

// Returns whether `c` is one of the letters of `\d \D \s \S \w \W`.
bool is_class_escape(char c);

}  // namespace shardplan
