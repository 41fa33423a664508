// SPDX-License-Identifier: Apache-2.0
// JSON strings, and texts with escapes for unprintable characters
// (base/text.h).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/plain_json.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

void append_escape(std::string& out, char32_t code_point) {
  const std::string_view escape = short_escape(code_point);
  if (!escape.empty()) {
    out += escape;
    return;
  }
  const auto number = static_cast<uint32_t>(code_point);
  out += number < 0x100 ? fmt::format("\\x{:02x}", number)
                        : fmt::format("\\u{{{:x}}}", number);
}

void append_code_unit(std::string& out, uint32_t unit) {
  out += fmt::format("\\u{:04x}", unit);
}

void append_unicode_escape(std::string& out, char32_t code_point) {
  const auto number = static_cast<uint32_t>(code_point);
  if (number < 0x10000) {
    append_code_unit(out, number);
  } else {
    append_code_unit(out, 0xD800U + ((number - 0x10000U) >> 10U));
    append_code_unit(out, 0xDC00U + ((number - 0x10000U) & 0x3FFU));
  }
}

// Appends the character at `at`, which is not plain, and advances `at`.
void append_special(std::string& out, std::string_view text, size_t& at) {
  const size_t start = at;
  const char32_t code_point = decode_utf8(text, at);
  const std::string_view escape = short_escape(code_point);
  if (!escape.empty()) {
    out += escape;
  } else if (!is_printable(code_point) ||
             (code_point == '#' && follows_hash(text, start))) {
    append_unicode_escape(out, code_point);
  } else if (code_point == kReplacement) {
    out += "\xEF\xBF\xBD";
  } else {
    if (code_point == '"' || code_point == '\\') out += '\\';
    out += text.substr(start, at - start);
  }
}

}  // namespace

bool follows_hash(std::string_view text, size_t at) {
  while (at > 0) {
    size_t before = at - 1;
    while (before > 0 &&
           (static_cast<unsigned char>(text[before]) & 0xC0U) == 0x80U) {
      --before;
    }
    if (text[before] == '#') return true;
    size_t next = before;
    const char32_t code_point = decode_utf8(text, next);
    if (code_point < 0x80 || code_point_width(code_point) != 0) return false;
    at = before;
  }
  return false;
}

void append_printable_json(std::string& out, std::string_view text) {
  out += '"';
  for (size_t at = 0; true;) {
    const size_t plain = plain_json(text.substr(at));
    out += text.substr(at, plain);
    at += plain;
    if (at == text.size()) break;
    append_special(out, text, at);
  }
  out += '"';
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kShort = "btnvfr";  // 0x08 .. 0x0d; JSON has no \v
  out += '"';
  while (true) {
    const size_t plain = plain_json(text);
    out += text.substr(0, plain);
    if (plain == text.size()) break;
    const char c = text[plain];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
      out += '\\';
      out += kShort[byte - 8U];
    } else if (byte < 0x20) {
      append_code_unit(out, byte);
    } else {
      out += c;
    }
    text.remove_prefix(plain + 1);
  }
  out += '"';
}

bool is_plain_ascii(std::string_view text) {
  return plain_json(text) == text.size() ||
         std::ranges::all_of(text,
                             [](char c) { return c >= 0x20 && c < 0x7F; });
}

std::string printable(std::string_view text) {
  const bool hashes = contains(text, '#') && text.find('#') != text.rfind('#');
  if (is_plain_ascii(text) && !hashes) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t code_point = decode_utf8(text, at);
    if (code_point == kReplacement && at == start + 1) {
      append_escape(out, static_cast<unsigned char>(text[start]));
    } else if (!is_printable(code_point) ||
               (code_point == '#' && hashes && follows_hash(text, start))) {
      append_escape(out, code_point);
    } else {
      out += text.substr(start, at - start);
    }
  }
  return out;
}

std::string xml_text(std::string_view text) {
  constexpr std::string_view kMarkup = "&<>\"";
  constexpr std::array<std::string_view, 4> kEntities = {"&amp;", "&lt;",
                                                         "&gt;", "&quot;"};
  std::string out;
  for (const char c : text) {
    const size_t which = kMarkup.find(c);
    if (which == std::string_view::npos) {
      out += c;
    } else {
      out += kEntities.at(which);
    }
  }
  return out;
}

}  // namespace shardplan
