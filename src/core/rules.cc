// SPDX-License-Identifier: Apache-2.0
#include "core/rules.h"

#include <string_view>

namespace shardplan {

std::string exact_pattern(std::string_view name) {
  std::string pattern = "^";
  for (const char c : name) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) {
      pattern += '\\';
    }
    pattern += c;
  }
  return pattern + "$";
}

}  // namespace shardplan
