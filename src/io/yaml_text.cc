// SPDX-License-Identifier: Apache-2.0
#include "io/yaml_text.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "io/text_escape.h"

namespace shardplan {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Booleans and nulls of YAML 1.1 and 1.2.
bool is_reserved(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kWords = {
      "y", "yes", "n", "no", "on", "off", "true", "false", "null"};
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kWords.begin(), kWords.end(), lower) != kWords.end();
}

}  // namespace

std::string yaml_string(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = decode_utf8(text, at);
    const std::string escape = text_escape(code);
    out += escape.empty() ? text.substr(begin, at - begin) : escape;
  }
  return out + "\"";
}

std::string yaml_word(std::string_view text) {
  const bool plain = !text.empty() && is_letter(text.front()) &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return is_letter(c) || is_digit(c);
                     });
  return plain && !is_reserved(text) ? std::string(text) : yaml_string(text);
}

}  // namespace shardplan
