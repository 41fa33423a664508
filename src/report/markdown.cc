// SPDX-License-Identifier: Apache-2.0
#include "report/markdown.h"

#include <algorithm>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Returns whether the word contains a complete or abbreviated commit id, which
// would become a link: 7 to 40 hexadecimal digits, not all of them decimal,
// without adjacent letters or digits.
bool has_commit_id(std::string_view word) {
  constexpr size_t kLeast = 7;
  constexpr size_t kMax = 40;
  while (!word.empty()) {
    const auto end = std::ranges::find_if_not(
        word, [](char c) { return is_digit(c) || is_letter(c); });
    const std::string_view run(word.begin(), end);
    if (run.size() >= kLeast && run.size() <= kMax &&
        std::ranges::all_of(run, is_hex) &&
        !std::ranges::all_of(run, is_digit)) {
      return true;
    }
    word.remove_prefix(std::min(run.size() + 1, word.size()));
  }
  return false;
}

// Returns whether a sign precedes a text that it turns into a reference:
// `@name`, `#1`, and GitLab's `!1`, `%1`, `~label`, `&1`, `[vulnerability:1]`.
bool has_reference(std::string_view word) {
  for (size_t at = 0; at + 1 < word.size(); ++at) {
    const char next = word[at + 1];
    const bool begins = is_digit(next) || is_letter(next) || next == '_' ||
                        next == '"' || static_cast<unsigned char>(next) >= 0x80;
    if (!begins) continue;
    const char sign = word[at];
    if (contains("@%~", sign) || (is_digit(next) && contains("#!&", sign)) ||
        (is_letter(next) && sign == '[' && contains(word.substr(at), ':'))) {
      return true;
    }
  }
  return false;
}

// Returns whether GitHub or GitLab may turn a word into a link, a mention, an
// emoji or a formula even if every Markdown character in it is escaped: they
// search the text of the page, except in code.
bool may_become_more(std::string_view word) {
  if (contains(word, '$') || has_reference(word)) return true;
  const std::string lower = lower_case(word);
  for (const char* sign : {"://", "www.", "mailto:", "xmpp:"}) {
    if (contains(lower, sign)) return true;
  }
  for (size_t at = lower.find("gh-"); at != std::string::npos;
       at = lower.find("gh-", at + 1)) {
    const bool begins = at == 0 || !is_letter(lower[at - 1]);
    if (begins && at + 3 < lower.size() && is_digit(lower[at + 3])) return true;
  }
  const bool emoji = std::ranges::count(word, ':') > 1;
  return emoji || has_commit_id(word);
}

// Appends `more`, separated if both have adjacent code spans, whose fences
// would merge.
void append_separated(std::string& out, std::string_view more) {
  if (out.ends_with('`') && more.starts_with('`')) out += "<!-- -->";
  out += more;
}

std::string escaped_text(std::string_view text) {
  constexpr std::string_view kSpecial = "\\`*_[]<>|~#&@";
  std::string out;
  for (const char c : text) {
    if (contains(kSpecial, c)) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string html_code(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>|`\\*_[]~#:.$!%-";
  std::string out = "<code>";
  for (const char c : text) {
    if (c == '@') {
      // Addresses are searched for after entities are decoded.
      out += "<!-- -->&#64;";
    } else if (!contains(kSpecial, c)) {
      out += c;
    } else {
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    }
  }
  return out + "</code>";
}

std::vector<MarkdownWord> markdown_words(std::string_view text) {
  std::vector<MarkdownWord> words;
  while (!text.empty()) {
    const size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (may_become_more(word)) {
      if (begin > 0) {
        words.push_back({std::string(text.substr(0, begin)), false});
      }
      words.push_back({std::string(word), true});
    } else {
      if (words.empty() || words.back().code) words.emplace_back();
      words.back().text += text.substr(0, end);
    }
    text.remove_prefix(end);
  }
  return words;
}

std::string markdown_code(std::string_view text, bool in_table) {
  if (text.empty()) return {};
  // A table's row is split at pipes before code spans are parsed, and `\\|`
  // counts as an escaped backslash and a bare pipe: neither can be written in a
  // span.
  const bool cut = contains(text, "\\|") || contains(text, '`');
  if (in_table && cut) return html_code(text);
  // The fence must be longer than any run of backticks inside.
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

std::string markdown_plain(std::string_view text, bool in_table) {
  std::string out;
  for (const MarkdownWord& word : markdown_words(text)) {
    append_separated(out, word.code ? markdown_code(word.text, in_table)
                                    : escaped_text(word.text));
  }
  return out;
}

std::string markdown_prose(std::string_view text, bool in_table) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('`');
    const size_t close =
        open == std::string_view::npos ? open : text.find('`', open + 1);
    if (close == std::string_view::npos) {
      append_separated(out, markdown_plain(text, in_table));
      return out;
    }
    append_separated(out, markdown_plain(text.substr(0, open), in_table));
    append_separated(
        out, markdown_code(text.substr(open + 1, close - open - 1), in_table));
    text.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace shardplan
