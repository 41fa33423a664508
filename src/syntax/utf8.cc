// SPDX-License-Identifier: Apache-2.0
#include "syntax/utf8.h"

#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace shardplan {

std::optional<uint32_t> leading_hex(std::string_view text, size_t count) {
  const std::string_view digits = text.substr(0, count);
  const char* const end = digits.data() + digits.size();
  uint32_t value = 0;
  const auto result = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() < count || result.ptr != end) return std::nullopt;
  return value;
}

std::string text_escape(char32_t code) {
  if (code == U'"' || code == U'\\') {
    return std::string("\\") + static_cast<char>(code);
  }
  if (is_printable(code)) return "";
  const auto number = static_cast<uint32_t>(code);
  if (code < 0x100) return fmt::format("\\x{:02x}", number);
  return code < 0x10000 ? fmt::format("\\u{:04x}", number)
                        : fmt::format("\\U{:08x}", number);
}

std::string escaped_text(std::string_view text, bool short_escapes) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = decode_utf8(text, at);
    std::string escape = text_escape(code);
    if (code == U'#' && follows_hash(text, begin)) escape = "\\x23";
    if (short_escapes && code == U'\n') escape = "\\n";
    if (short_escapes && code == U'\t') escape = "\\t";
    out += escape.empty() ? text.substr(begin, at - begin) : escape;
  }
  return out;
}

}  // namespace shardplan
