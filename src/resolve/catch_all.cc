// SPDX-License-Identifier: Apache-2.0
// Which patterns are found in any name whatever (resolve/match.h).
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include <re2/re2.h>

#include "base/allocation.h"
#include "resolve/match.h"
#include "resolve/python_regex.h"

namespace shardplan {
namespace {

// What names are made of: printable ASCII without the blank.
constexpr char kFirstCharacter = '!';
constexpr char kLastCharacter = '~';

bool finds_every_pair(const RE2& pattern) {
  for (char a = kFirstCharacter; a <= kLastCharacter; ++a) {
    for (char b = kFirstCharacter; b <= kLastCharacter; ++b) {
      const char name[] = {a, b};
      if (!RE2::PartialMatch(std::string_view(name, 2), pattern)) return false;
    }
  }
  return true;
}

// Longer than any repetition that RE2 counts.
constexpr size_t kLongName = 1001;
constexpr size_t kShortNames = 80;

// All characters in turn, and one of them alone.
bool finds_every_length(const RE2& pattern) {
  std::string turn(kLongName, ' ');
  char next = kFirstCharacter;
  for (char& c : turn) {
    c = next;
    next =
        next == kLastCharacter ? kFirstCharacter : static_cast<char>(next + 1);
  }
  const auto finds = [&](size_t length) {
    return RE2::PartialMatch(std::string(length, 'a'), pattern) &&
           RE2::PartialMatch(turn.substr(turn.size() - length), pattern);
  };
  for (size_t length = 3; length < kShortNames; ++length) {
    if (!finds(length)) return false;
  }
  return finds(kLongName);
}

bool has_any(std::string_view text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace

// A pattern that matches every name of one character is found in all names
// unless it looks at both ends: what is found at the beginning of `c` is found
// at that of whatever begins with c, as long as it does not ask where the name
// ends, and the same holds for the end.
bool is_catch_all(std::string_view pattern) {
  const auto translated = translate_pattern(pattern, true);
  if (!std::holds_alternative<TranslatedPattern>(translated)) return false;
  const std::string& text = std::get<TranslatedPattern>(translated).re2;
  const UnrefusedAllocations re2;
  RE2::Options quiet(RE2::Quiet);
  quiet.set_never_capture(true);
  const RE2 compiled(text, quiet);
  if (!compiled.ok()) return false;
  for (char c = kLastCharacter; c >= kFirstCharacter; --c) {
    if (!RE2::PartialMatch(std::string_view(&c, 1), compiled)) return false;
  }
  // A `^` within a class counts too: then the pattern is tried without need.
  const bool at_begin = has_any(text, {"^", "\\A"});
  const bool at_end = has_any(text, {"$", "\\z"});
  const bool at_words = has_any(text, {"\\b", "\\B"});
  if (!at_words && !(at_begin && at_end)) return true;
  return finds_every_pair(compiled) && finds_every_length(compiled);
}

}  // namespace shardplan
