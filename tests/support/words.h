// SPDX-License-Identifier: Apache-2.0
// Command lines in tests of the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardplan::testing {

using Words = std::vector<std::string>;

// For messages: every word and a blank.
inline std::string command_line(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

inline bool has_text(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace shardplan::testing
