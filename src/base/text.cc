// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/code_point_width.h"

namespace shardplan {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Not printf: its decimal point depends on the locale.
std::string fixed(double value, int decimals) {
  return fmt::format("{:.{}f}", value, decimals);
}

// Decimals that `value` is shown with so that it has three or four digits,
// judged after rounding: 9.996 is "10.0", not "10.00".
int size_decimals(double value) { return value < 9.995 ? 2 : 1; }

// Most texts: one column a byte and nothing to escape.
bool is_plain_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= 0x20 && c < 0x7F; });
}

void append_escape(std::string& out, char32_t code_point) {
  switch (code_point) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto number = static_cast<uint32_t>(code_point);
  out += number < 0x100 ? fmt::format("\\x{:02x}", number)
                        : fmt::format("\\u{{{:x}}}", number);
}

std::u32string code_points(std::string_view text) {
  std::u32string points;
  for (size_t at = 0; at < text.size();) {
    points.push_back(decode_utf8(text, at));
  }
  return points;
}

std::u32string lowered(std::u32string text) {
  for (char32_t& c : text) {
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  }
  return text;
}

// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`, no
// text edited twice: the "optimal string alignment" form of Damerau's distance.
size_t edit_distance(std::u32string_view a, std::u32string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

// A code point and the marks of no width that follow it.
struct Cluster {
  size_t begin = 0;
  int width = 0;
};

std::vector<Cluster> clusters_of(std::string_view text) {
  std::vector<Cluster> clusters;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const int width = code_point_width(decode_utf8(text, at));
    if (width > 0 || clusters.empty()) clusters.push_back({begin, width});
  }
  return clusters;
}

}  // namespace

std::string bytes_text(double bytes) {
  static constexpr std::array<const char*, 7> kUnits = {
      " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  if (!std::isfinite(bytes))
    return std::isnan(bytes) ? "undefined" : "infinite";
  double value = std::abs(bytes);
  size_t unit = 0;
  // What would round to 1024 of a unit is one of the next.
  while (unit + 1 < kUnits.size() && value >= (unit == 0 ? 1023.5 : 1023.95)) {
    value /= 1024;
    ++unit;
  }
  const std::string number = fixed(value, unit == 0 ? 0 : size_decimals(value));
  const bool negative = bytes < 0 && number != "0";
  return (negative ? "-" : "") + number + kUnits.at(unit);
}

std::string percent_text(double fraction) {
  const double percent = 100 * fraction;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  if (percent >= 99.95 && percent < 100) return ">99.9 %";
  return fixed(percent, 1) + " %";
}

std::string count_text(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t sign = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > sign + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string short_count_text(int64_t count) {
  static constexpr std::array<const char*, 5> kNames = {
      " million", " billion", " trillion", " quadrillion", " quintillion"};
  if (count < 1'000'000 && count > -1'000'000) return count_text(count);
  double value = static_cast<double>(count) / 1e6;
  size_t name = 0;
  while (name + 1 < kNames.size() && std::abs(value) >= 999.5) {
    value /= 1000;
    ++name;
  }
  const double size = std::abs(value);
  const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return fixed(value, decimals) + kNames.at(name);
}

std::string plural(int64_t count, std::string_view noun) {
  std::string word(noun);
  if (count != 1 && count != -1 && !noun.empty()) {
    const auto ends = [&](std::string_view end) { return noun.ends_with(end); };
    const bool vowel_y = ends("ay") || ends("ey") || ends("oy") || ends("uy");
    if (ends("axis")) {
      word.replace(word.size() - 2, 2, "es");
    } else if (ends("y") && !vowel_y) {
      word.replace(word.size() - 1, 1, "ies");
    } else {
      word += ends("s") || ends("x") || ends("ch") || ends("sh") ? "es" : "s";
    }
  }
  return count_text(count) + " " + word;
}

std::string list_text(std::span<const int64_t> numbers, size_t limit) {
  const size_t shown = std::min(numbers.size(), limit);
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " or " : ", ";
    text += std::to_string(numbers[i]);
  }
  if (shown < numbers.size()) text += shown == 0 ? "..." : ", ...";
  return text;
}

std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates) {
  // Nobody mistypes more than this; the cost grows with the square.
  constexpr size_t kLongest = 256;
  const std::u32string exact = code_points(word.substr(0, 4 * kLongest + 1));
  if (exact.empty() || exact.size() > kLongest) return std::nullopt;
  const std::u32string lower = lowered(exact);
  const size_t limit = std::max<size_t>(1, exact.size() / 3);

  const std::string* best = nullptr;
  std::pair<size_t, size_t> best_distance;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 4 * (lower.size() + limit)) continue;
    const std::u32string other = code_points(candidate);
    const size_t longer = std::max(lower.size(), other.size());
    if (longer - std::min(lower.size(), other.size()) > limit) continue;
    const size_t distance = edit_distance(lower, lowered(other));
    // Something of the word must remain: `x` does not mean `y`.
    if (distance > limit || distance >= longer) continue;
    const std::pair found(distance, edit_distance(exact, other));
    if (best == nullptr || found < best_distance) {
      best = &candidate;
      best_distance = found;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

int display_width(std::string_view text) {
  constexpr int64_t kMost = 1 << 30;
  int64_t width = 0;
  if (is_plain_ascii(text)) {
    width = static_cast<int64_t>(text.size());
  } else {
    for (size_t at = 0; at < text.size();) {
      width += code_point_width(decode_utf8(text, at));
    }
  }
  return static_cast<int>(std::min(width, kMost));
}

std::string elide_middle(std::string_view text, int width, bool unicode) {
  if (display_width(text) <= width) return std::string(text);
  const std::string_view mark = unicode ? "…" : "..";
  const int mark_width = unicode ? 1 : 2;
  if (width <= mark_width) {
    return std::string(static_cast<size_t>(std::max(width, 0)), '.');
  }
  const std::vector<Cluster> clusters = clusters_of(text);
  // The tail gets two thirds: names differ at their ends.
  int head_room = (width - mark_width) / 3;
  int tail_room = width - mark_width - head_room;
  size_t head = 0;
  while (head < clusters.size() && clusters[head].width <= head_room) {
    head_room -= clusters[head++].width;
  }
  tail_room += head_room;
  size_t tail = clusters.size();
  while (tail > head && clusters[tail - 1].width <= tail_room) {
    tail_room -= clusters[--tail].width;
  }
  std::string shortened(text.substr(0, clusters[head].begin));
  shortened += mark;
  if (tail < clusters.size()) shortened += text.substr(clusters[tail].begin);
  return shortened;
}

std::string pad(std::string_view text, int width, bool right) {
  const int missing = std::max(0, width - display_width(text));
  const std::string blanks(static_cast<size_t>(missing), ' ');
  return right ? blanks + std::string(text) : std::string(text) + blanks;
}

char32_t decode_utf8(std::string_view text, size_t& at) {
  const auto byte = [&](size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
  };
  const unsigned lead = byte(at);
  const size_t start = at++;
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return kReplacement;
  const size_t more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t code_point = lead & (0x3FU >> more);
  for (size_t i = 1; i <= more; ++i) {
    const unsigned next = byte(start + i);
    if ((next & 0xC0U) != 0x80U) return kReplacement;
    code_point = (code_point << 6U) | (next & 0x3FU);
  }
  static constexpr std::array<char32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kLeast.at(more) || code_point > 0x10FFFF || surrogate) {
    return kReplacement;
  }
  at = start + more + 1;
  return code_point;
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const size_t start = at;
    if (decode_utf8(text, at) == kReplacement && at == start + 1) return false;
  }
  return true;
}

bool is_printable(char32_t code_point) {
  const bool control =
      code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
  const bool line_or_direction =
      (code_point >= 0x2028 && code_point <= 0x202E) ||
      (code_point >= 0x2066 && code_point <= 0x2069) || code_point == 0x200E ||
      code_point == 0x200F || code_point == 0x61C;
  return !control && !line_or_direction && code_point != 0xFEFF;
}

std::string printable(std::string_view text) {
  if (is_plain_ascii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t code_point = decode_utf8(text, at);
    if (code_point == kReplacement && at == start + 1) {
      append_escape(out, static_cast<unsigned char>(text[start]));
    } else if (!is_printable(code_point)) {
      append_escape(out, code_point);
    } else {
      out += text.substr(start, at - start);
    }
  }
  return out;
}

}  // namespace shardplan
