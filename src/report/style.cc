// SPDX-License-Identifier: Apache-2.0
#include "report/style.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

constexpr Glyphs kUnicode = {"×", "─", "█", "…", "–", "µ"};
constexpr Glyphs kAscii = {"x", "-", "=", "..", "-", "u"};

// Every non-ASCII sign in our own texts, and its replacement in ASCII.
constexpr std::array<std::pair<std::string_view, std::string_view>, 19>
    kFallbacks = {{{"×", "x"},
                   {"─", "-"},
                   {"│", "|"},
                   {"└", "+"},
                   {"├", "+"},
                   {"┌", "+"},
                   {"┬", "+"},
                   {"┐", "+"},
                   {"┼", "+"},
                   {"┤", "+"},
                   {"┴", "+"},
                   {"┘", "+"},
                   {"█", "="},
                   {"…", ".."},
                   {"→", "->"},
                   {"–", "-"},
                   {"−", "-"},
                   {"µ", "u"},
                   {"≥", ">="}}};

std::string_view escape_of(Paint paint) {
  switch (paint) {
    case Paint::Plain:
      return "";
    case Paint::Bold:
      return "\x1b[1m";
    case Paint::Dim:
      return "\x1b[2m";
    case Paint::Error:
      return "\x1b[1;31m";
    case Paint::Warning:
      return "\x1b[1;33m";
    case Paint::Help:
      return "\x1b[1;36m";
    case Paint::Good:
      return "\x1b[1;32m";
  }
  return "";
}

}  // namespace

std::string painted(std::string_view text, Paint paint, const Style& style) {
  if (!style.colour || paint == Paint::Plain || text.empty()) {
    return std::string(text);
  }
  std::string result(escape_of(paint));
  result += text;
  result += "\x1b[0m";
  return result;
}

const Glyphs& glyphs(const Style& style) {
  return style.unicode ? kUnicode : kAscii;
}

std::string shown(std::string_view text, const Style& style) {
  std::string result = printable(text);
  if (style.unicode) return result;
  for (const auto& [sign, ascii] : kFallbacks) {
    for (size_t at = result.find(sign); at != std::string::npos;
         at = result.find(sign, at + ascii.size())) {
      result.replace(at, sign.size(), ascii);
    }
  }
  return result;
}

}  // namespace shardplan
