// SPDX-License-Identifier: Apache-2.0
// plain_json: the length of the prefix of a text that needs no escape in JSON
// (for names usually all of it). Also the short escapes that JSON shares with
// printed text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace shardplan {

// Returns the number of bytes at the front that need no escape in JSON and may
// be printed: ASCII without controls, quote and backslash, and without `#`,
// since two of these may begin a command to the runner of a CI job. Works on
// eight bytes at a time.
inline size_t plain_json(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighs = 0x8080808080808080;
  size_t at = 0;
  for (uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    const uint64_t quote = word ^ (kOnes * '"');
    const uint64_t backslash = word ^ (kOnes * '\\');
    const uint64_t hash = word ^ (kOnes * '#');
    // The high bit of each special byte is set. Borrows and carries may set the
    // high bits of neighbouring bytes as well, but never clear one.
    const uint64_t special = (quote - kOnes) | (backslash - kOnes) |
                             (hash - kOnes) | (word - kOnes * 0x20) |
                             (word + kOnes) | word;
    if ((special & kHighs) != 0) break;
  }
  const auto is_plain = [](char c) {
    return c >= ' ' && c < '\x7F' && c != '"' && c != '\\' && c != '#';
  };
  while (at < text.size() && is_plain(text[at])) ++at;
  return at;
}

// Returns "\\n", "\\r" or "\\t"; empty for any other character.
inline std::string_view short_escape(char32_t code_point) {
  switch (code_point) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return "";
  }
}

}  // namespace shardplan
