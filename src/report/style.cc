// SPDX-License-Identifier: Apache-2.0
#include "report/style.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr Glyphs kUnicode = {"×", "─", "█", "…", "–", "µ"};
constexpr Glyphs kAscii = {"x", "-", "=", "..", "-", "u"};

// The replacements in ASCII of every non-ASCII sign in our own texts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9>
    kFallbacks = {{{"x", "×"},
                   {"-", "─–−"},
                   {"|", "│"},
                   {"+", "└├┌┬┐┼┤┴┘"},
                   {"=", "█"},
                   {"..", "…"},
                   {"->", "→"},
                   {"u", "µ"},
                   {">=", "≥"}}};

// The terminal's escapes, in the order of Paint.
constexpr std::string_view kEscapes[] = {
    "",           "\x1b[1m",    "\x1b[2m",   "\x1b[1;31m",
    "\x1b[1;33m", "\x1b[1;36m", "\x1b[1;32m"};

}  // namespace

std::string painted(std::string_view text, Paint paint, const Style& style) {
  if (!style.colour || paint == Paint::Plain || text.empty()) {
    return std::string(text);
  }
  return std::string(nth(kEscapes, paint)) + std::string(text) + "\x1b[0m";
}

const Glyphs& glyphs(const Style& style) {
  return style.unicode ? kUnicode : kAscii;
}

std::string bar_text(double fraction, int width, std::string_view glyph) {
  if (!(fraction > 0)) return {};
  const int length = std::max(
      1, static_cast<int>(std::lround(std::min(fraction, 1.0) * width)));
  std::string bar;
  for (int i = 0; i < length; ++i) bar += glyph;
  return bar;
}

std::string shown(std::string_view text, const Style& style) {
  const std::string all = printable(text);
  if (style.unicode) return all;
  std::string result;
  for (size_t at = 0; at < all.size();) {
    const size_t begin = at;
    decode_utf8(all, at);
    const std::string_view sign =
        std::string_view(all).substr(begin, at - begin);
    const auto* found = std::ranges::find_if(
        kFallbacks,
        [&](const auto& fallback) { return contains(fallback.second, sign); });
    result += found == kFallbacks.end() ? sign : found->first;
  }
  return result;
}

}  // namespace shardplan
