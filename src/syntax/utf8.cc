// SPDX-License-Identifier: Apache-2.0
#include "syntax/utf8.h"

#include <fmt/format.h>

#include "base/text.h"

namespace shardplan {

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

std::string text_escape_at(std::string_view text, size_t begin, char32_t code) {
  return code == U'#' && follows_hash(text, begin) ? "\\x23"
                                                   : text_escape(code);
}

}  // namespace shardplan
