// SPDX-License-Identifier: Apache-2.0
#include "report/runner_commands.h"

#include <algorithm>

#include "base/text.h"

namespace shardplan {
namespace {

constexpr std::string_view kColon = "\\x3a";
constexpr std::string_view kHash = "\\x23";

// Returns whether .NET trims the character.
bool is_blank(char32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Returns whether .NET ignores the character when it compares texts: marks
// without a width.
bool is_ignored(char32_t c) {
  return c >= 0x80 && c != 0xFFFD && code_point_width(c) == 0;
}

// Returns whether there are two colons at `at`.
bool has_colons(std::string_view line, size_t at) {
  if (!line.substr(at).starts_with(':')) return false;
  for (++at; at < line.size();) {
    size_t next = at;
    if (!is_ignored(decode_utf8(line, next))) break;
    at = next;
  }
  return line.substr(at).starts_with(':');
}

// Returns the position after blanks and the terminal's escapes for colours.
size_t begin_of_words(std::string_view line) {
  size_t at = 0;
  while (at < line.size()) {
    if (line.substr(at).starts_with("\x1b[")) {
      const size_t end = line.find('m', at);
      if (end == std::string_view::npos) return at;
      at = end + 1;
      continue;
    }
    size_t next = at;
    const char32_t c = decode_utf8(line, next);
    if (!is_blank(c) && !is_ignored(c)) return at;
    at = next;
  }
  return at;
}

// Appends one line, with or without its end.
void append_line(std::string& out, std::string_view line) {
  size_t copied = 0;
  const size_t begin = begin_of_words(line);
  if (has_colons(line, begin)) {
    out.append(line.substr(0, begin)).append(kColon);
    copied = begin + 1;
  }
  for (size_t open = line.find('['); open != std::string_view::npos;
       open = line.find('[', open + 1)) {
    size_t name = open;
    while (name > copied && is_letter(line[name - 1])) --name;
    if (name < copied + 2 || line[name - 1] != '#' || line[name - 2] != '#') {
      continue;
    }
    out.append(line.substr(copied, name - 1 - copied)).append(kHash);
    copied = name;
  }
  out.append(line.substr(copied));
}

}  // namespace

std::string without_commands(std::string_view lines) {
  std::string out;
  out.reserve(lines.size());
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    append_line(out, lines.substr(0, end));
    lines.remove_prefix(end);
  }
  return out;
}

bool LineGuard::write(std::string_view piece) {
  if (refused_) return false;
  const size_t last = piece.rfind('\n');
  if (last == std::string_view::npos) {
    rest_ += piece;
    return true;
  }
  rest_ += piece.substr(0, last + 1);
  refused_ = !sink_(without_commands(rest_));
  rest_ = piece.substr(last + 1);
  return !refused_;
}

bool LineGuard::finish() {
  if (!refused_ && !rest_.empty()) refused_ = !sink_(without_commands(rest_));
  rest_.clear();
  return !refused_;
}

}  // namespace shardplan
