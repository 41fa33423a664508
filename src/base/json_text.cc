// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.h"

namespace shardplan {

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kShort = "btnvfr";  // 0x08 .. 0x0d; \v has none
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 8 && byte <= 13 && byte != 11) {
      out += '\\';
      out += kShort[byte - 8U];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace shardplan
