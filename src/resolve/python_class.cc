// SPDX-License-Identifier: Apache-2.0
#include "resolve/python_class.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"

namespace shardplan {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string code_text(char32_t code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string digits;
  for (auto rest = static_cast<uint32_t>(code); rest != 0 || digits.empty();
       rest >>= 4U) {
    digits.insert(digits.begin(), kHex[rest & 15U]);
  }
  return "\\x{" + digits + "}";
}

PatternProblem problem(size_t begin, size_t end, std::string message,
                       std::string help = "") {
  return {begin, end, std::move(message), std::move(help)};
}

// Exactly `count` hexadecimal digits behind `\x`, `\u` or `\U`.
std::variant<char32_t, PatternProblem> hex_escape(std::string_view pattern,
                                                  size_t& at, size_t count) {
  uint32_t code = 0;
  for (size_t i = at + 2; i < at + 2 + count; ++i) {
    const char c = i < pattern.size() ? pattern[i] : ' ';
    uint32_t digit = 16;
    if (is_digit(c)) digit = static_cast<uint32_t>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<uint32_t>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') digit = static_cast<uint32_t>(c - 'A') + 10;
    if (digit == 16) {
      return problem(
          at, std::min(i, pattern.size()),
          "the escape needs " + std::to_string(count) + " hexadecimal digits");
    }
    code = code * 16 + digit;
  }
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
    return problem(at, at + 2 + count, "no such character exists");
  }
  at += 2 + count;
  return static_cast<char32_t>(code);
}

// `\0`, `\07`, `\123`; other numbers refer to groups.
std::variant<char32_t, PatternProblem> digit_escape(std::string_view pattern,
                                                    size_t& at, bool in_class) {
  size_t end = at + 1;
  while (end < pattern.size() && end < at + 4 && is_octal(pattern[end])) ++end;
  const size_t octals = end - at - 1;
  const bool octal =
      pattern[at + 1] == '0' || octals == 3 || (in_class && octals > 0);
  if (!octal) {
    return problem(at, at + 2,
                   in_class ? "this escape is not known to Python"
                            : "back-references are not supported",
                   in_class ? "" : "repeat the text that is meant");
  }
  uint32_t code = 0;
  for (size_t i = at + 1; i < end; ++i) {
    code = code * 8 + static_cast<uint32_t>(pattern[i] - '0');
  }
  if (code > 0377) {
    return problem(at, end, "the octal escape exceeds 0o377");
  }
  at = end;
  return static_cast<char32_t>(code);
}

// Python's str.isspace, as ranges.
struct Range {
  char32_t first;
  char32_t last;
};
constexpr std::array<Range, 10> kSpaces = {{
    {0x09, 0x0d},
    {0x1c, 0x20},
    {0x85, 0x85},
    {0xa0, 0xa0},
    {0x1680, 0x1680},
    {0x2000, 0x200a},
    {0x2028, 0x2029},
    {0x202f, 0x202f},
    {0x205f, 0x205f},
    {0x3000, 0x3000},
}};

std::string range_text(char32_t first, char32_t last) {
  return code_text(first) + "-" + code_text(last);
}

std::string space_ranges(bool inside) {
  std::string text;
  char32_t next = 0;
  for (const Range& range : kSpaces) {
    text += inside ? range_text(range.first, range.last)
                   : range_text(next, range.first - 1);
    next = range.last + 1;
  }
  return inside ? text : text + range_text(next, 0x10ffff);
}

// One member of a class: a character, or a set such as `\d`.
struct Member {
  std::optional<char32_t> code;
  std::string ranges;
  bool unspellable = false;
};

std::variant<Member, PatternProblem> read_member(std::string_view pattern,
                                                 size_t& at, bool ascii) {
  if (pattern[at] != '\\') return Member{decode_utf8(pattern, at), "", false};
  if (at + 1 >= pattern.size()) {
    return problem(at, pattern.size(), "the pattern ends in a backslash");
  }
  const char c = pattern[at + 1];
  if (c == 'b') {
    at += 2;
    return Member{U'\b', "", false};
  }
  if (is_class_escape(c)) {
    at += 2;
    std::optional<std::string> ranges = class_escape_ranges(c, ascii);
    if (ranges) return Member{std::nullopt, std::move(*ranges), false};
    return Member{std::nullopt, *class_escape_ranges(c, true), true};
  }
  std::variant<char32_t, PatternProblem> code =
      character_escape(pattern, at, true);
  if (auto* refused = std::get_if<PatternProblem>(&code)) {
    return std::move(*refused);
  }
  return Member{std::get<char32_t>(code), "", false};
}

}  // namespace

bool is_class_escape(char c) {
  return std::string_view("dDsSwW").find(c) != std::string_view::npos;
}

std::optional<std::string> class_escape_ranges(char c, bool ascii) {
  switch (c) {
    case 'd':
      return ascii ? "0-9" : "\\p{Nd}";
    case 'D':
      return ascii ? "\\x{0}-/:-\\x{10ffff}" : "\\P{Nd}";
    case 's':
      return ascii ? "\\x{9}-\\x{d}\\x{20}" : space_ranges(true);
    case 'S':
      return ascii ? "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{10ffff}"
                   : space_ranges(false);
    case 'w':
      return ascii ? "0-9A-Z_a-z" : "\\p{L}\\p{N}_";
    default:
      if (ascii) return "\\x{0}-/:-@\\[-\\^`{-\\x{10ffff}";
      return std::nullopt;
  }
}

std::string literal(char32_t code) {
  if (code < 0x80) {
    const char c = static_cast<char>(code);
    if (is_letter(c) || is_digit(c) || c == '_') return std::string(1, c);
  }
  return code_text(code);
}

std::variant<char32_t, PatternProblem> character_escape(
    std::string_view pattern, size_t& at, bool in_class) {
  const char c = pattern[at + 1];
  if (c == 'x') return hex_escape(pattern, at, 2);
  if (c == 'u') return hex_escape(pattern, at, 4);
  if (c == 'U') return hex_escape(pattern, at, 8);
  if (is_digit(c)) return digit_escape(pattern, at, in_class);
  constexpr std::string_view kNames = "afnrtv";
  constexpr std::string_view kCodes = "\a\f\n\r\t\v";
  if (const size_t i = kNames.find(c); i != std::string_view::npos) {
    at += 2;
    return static_cast<char32_t>(kCodes[i]);
  }
  if (is_letter(c)) {
    return problem(
        at, at + 2, "this escape is not known to Python",
        c == 'z' ? "write `\\Z` or `$` for the end of the name" : "");
  }
  ++at;
  return decode_utf8(pattern, at);
}

std::variant<TranslatedClass, PatternProblem> translate_class(
    std::string_view pattern, size_t& at, bool ascii) {
  const size_t begin = at++;
  TranslatedClass result;
  result.re2 = "[";
  if (at < pattern.size() && pattern[at] == '^') {
    result.re2 += '^';
    ++at;
  }
  const size_t first = at;
  while (at < pattern.size() && (pattern[at] != ']' || at == first)) {
    const size_t member_at = at;
    auto low = read_member(pattern, at, ascii);
    if (auto* refused = std::get_if<PatternProblem>(&low)) {
      return std::move(*refused);
    }
    const Member& member = std::get<Member>(low);
    const bool is_range =
        at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']';
    if (!is_range) {
      if (member.unspellable) {
        result.ascii_only = pattern.substr(member_at, 2);
      }
      result.re2 += member.code ? literal(*member.code) : member.ranges;
      continue;
    }
    ++at;
    auto high = read_member(pattern, at, ascii);
    if (auto* refused = std::get_if<PatternProblem>(&high)) {
      return std::move(*refused);
    }
    const Member& last = std::get<Member>(high);
    if (!member.code || !last.code || *member.code > *last.code) {
      return problem(member_at, at, "this is not a range of characters");
    }
    result.re2 += range_text(*member.code, *last.code);
  }
  if (at >= pattern.size()) {
    return problem(begin, pattern.size(), "the character class is not closed",
                   "write `\\[` for a bracket");
  }
  ++at;
  result.re2 += ']';
  return result;
}

}  // namespace shardplan
