// SPDX-License-Identifier: Apache-2.0
#include "syntax/text.h"

#include <cstdint>

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
  return fmt::format("\\u{:04x}", number);  // none lies beyond
}

}  // namespace shardplan
