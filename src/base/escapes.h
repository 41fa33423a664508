// SPDX-License-Identifier: Apache-2.0
// Escapes that JSON, C and what we print to a terminal have in common.
#pragma once

#include <string_view>

namespace shardplan {

// "\\n", "\\r" and "\\t"; empty for any other character.
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
