// SPDX-License-Identifier: Apache-2.0
// Characters for readers and writers: UTF-8 (RFC 3629) validated (no overlong
// forms, no surrogates, nothing above U+10FFFF) and encoded, blanks, and the
// escapes of text formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardplan {

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Returns the number that the first `count` characters spell in hexadecimal;
// empty if they are not so many digits.
std::optional<uint32_t> leading_hex(std::string_view text, size_t count);

// Returns the bytes of the code point at `at`; 0 if they are not valid.
// REQUIRES: at < text.size().
inline size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4 || !continues(1)) return 0;
  if (lead < 0xE0) return 2;
  if (!continues(2)) return 0;
  const uint32_t first_two = lead << 8U | byte(1);
  if (lead < 0xF0) {
    const bool overlong = first_two < 0xE0A0;
    const bool surrogate = first_two >= 0xEDA0 && lead == 0xED;
    return overlong || surrogate ? 0 : 3;
  }
  const bool in_range = first_two >= 0xF090 && first_two < 0xF490;
  return in_range && continues(3) ? 4 : 0;
}

inline void append_utf8(std::string& text, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | code_point >> 6U);
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | code_point >> 12U);
    put(0x80U | (code_point >> 6U & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | code_point >> 18U);
    put(0x80U | (code_point >> 12U & 0x3FU));
    put(0x80U | (code_point >> 6U & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

// The escape of a code point that Python and YAML share: \x0a, \u202e, and a
// backslash before a quote or a backslash.

// Returns the escape, or "" if the character needs none.
std::string text_escape(char32_t code);
// Returns the text with these escapes. Also escapes a `#` after another, as in
// JSON (append_printable_json). With `short_escapes`, a line end and a tab
// become \n and \t.
std::string escaped_text(std::string_view text, bool short_escapes);

}  // namespace shardplan
