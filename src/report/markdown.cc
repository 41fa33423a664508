// SPDX-License-Identifier: Apache-2.0
#include "report/markdown.h"

#include <algorithm>

namespace shardplan {
namespace {

// Code in HTML, with every character that means something as an entity.
std::string html_code(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>|`\\*_[]~#@";
  std::string out = "<code>";
  for (const char c : text) {
    if (kSpecial.find(c) == std::string_view::npos) {
      out += c;
    } else {
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    }
  }
  return out + "</code>";
}

}  // namespace

std::string markdown_code(std::string_view text, bool in_table) {
  if (text.empty()) return {};
  // A table's row is cut at pipes before code spans are seen, and `\\|` counts
  // as an escaped backslash with a bare pipe: neither can be written in a span.
  const bool cut = text.find("\\|") != std::string_view::npos ||
                   text.find('`') != std::string_view::npos;
  if (in_table && cut) return html_code(text);
  // The fence is longer than any run of backticks inside.
  size_t longest = 0;
  size_t run = 0;
  std::string inside;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|' && in_table) inside += '\\';
    inside += c;
  }
  const std::string fence(longest + 1, '`');
  const auto needs_blank = [](char c) { return c == '`' || c == ' '; };
  const bool blank = needs_blank(text.front()) || needs_blank(text.back());
  const std::string between = blank ? " " : "";
  return fence + between + inside + between + fence;
}

std::string markdown_plain(std::string_view text) {
  constexpr std::string_view kSpecial = "\\`*_[]<>|~#&@";
  std::string out;
  for (const char c : text) {
    if (kSpecial.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string markdown_prose(std::string_view text, bool in_table) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('`');
    const size_t close =
        open == std::string_view::npos ? open : text.find('`', open + 1);
    if (close == std::string_view::npos) return out + markdown_plain(text);
    out += markdown_plain(text.substr(0, open));
    out += markdown_code(text.substr(open + 1, close - open - 1), in_table);
    text.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace shardplan
