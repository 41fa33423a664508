// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/plain_json.h"
#include "base/words.h"

namespace shardplan {
namespace {

template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return number;
}

constexpr char32_t kReplacement = 0xFFFD;

// Avoids printf, whose decimal point depends on the locale.
std::string fixed(double value, int decimals) {
  return fmt::format("{:.{}f}", value, decimals);
}

// Returns the number of decimals that shows three or four digits, judged after
// rounding: 9.996 is "10.0", not "10.00".
int size_decimals(double value) { return value < 9.995 ? 2 : 1; }

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

// Returns the number of edits (insert, delete, replace, swap neighbours) that
// turn `a` into `b` without editing any substring twice: the "optimal string
// alignment" variant of the Damerau-Levenshtein distance.
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

// A code point and the zero-width marks that follow it.
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
  // A value that would round to 1024 is shown in the next unit.
  while (unit + 1 < kUnits.size() && value >= (unit == 0 ? 1023.5 : 1023.95)) {
    value /= 1024;
    ++unit;
  }
  const std::string number = fixed(value, unit == 0 ? 0 : size_decimals(value));
  const bool negative = bytes < 0 && number != "0";
  return (negative ? "-" : "") + number + kUnits.at(unit);
}

std::string seconds_text(double seconds, std::string_view micro) {
  struct Unit {
    double size;
    std::string_view prefix;
  };
  const std::array<Unit, 4> units = {
      {{1, ""}, {1e-3, "m"}, {1e-6, micro}, {1e-9, "n"}}};
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  // A value that would round to 1000 is shown in the next unit.
  const auto unit = std::ranges::find_if(units, [&](const Unit& candidate) {
    return size >= 0.9995 * candidate.size;
  });
  if (unit == units.end()) return fmt::format("{:.1e} s", seconds);
  const double value = size / unit->size;
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}s", seconds / unit->size, decimals,
                     unit->prefix);
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

std::string joined(std::span<const std::string> texts, std::string_view between,
                   std::string_view last) {
  std::string result;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) result += i + 1 == texts.size() ? last : between;
    result += texts[i];
  }
  return result;
}

std::string joined(std::span<const std::string> texts,
                   std::string_view between) {
  return joined(texts, between, between);
}

std::string in_backticks(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string quoted_names(std::span<const std::string> names,
                         std::string_view last) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(in_backticks(name));
  return joined(texts, ", ", last);
}

std::string some_names(std::span<const std::string> names, size_t most) {
  if (names.size() <= most) return quoted_names(names);
  return quoted_names(names.first(most), ", ") + " and " +
         count_text(static_cast<int64_t>(names.size() - most)) + " more";
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  return parse_whole<int64_t>(text);
}

std::optional<double> parse_real(std::string_view text) {
  return parse_whole<double>(text);
}

std::string_view next_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

namespace {

// Returns the end of the number and unit at `at`: "1,234.5 GiB", "7", "12 %".
size_t end_of_number(std::string_view text, size_t at) {
  while (at < text.size() &&
         (is_digit(text[at]) ||
          ((text[at] == '.' || text[at] == ',') && at + 1 < text.size() &&
           is_digit(text[at + 1])))) {
    ++at;
  }
  constexpr std::array<std::string_view, 7> kUnits = {
      " B", " KiB", " MiB", " GiB", " TiB", " PiB", " %"};
  for (const std::string_view unit : kUnits) {
    const size_t end = at + unit.size();
    if (text.substr(at).starts_with(unit) &&
        (end == text.size() || !is_letter(text[end]))) {
      return end;
    }
  }
  return at;
}

}  // namespace

std::string without_numbers(std::string_view sentence) {
  std::string out;
  bool quoted = false;
  bool in_word = false;
  for (size_t i = 0; i < sentence.size();) {
    const char c = sentence[i];
    quoted = quoted != (c == '`');
    if (is_digit(c) && !quoted && !in_word) {
      out += '#';
      i = end_of_number(sentence, i);
      continue;
    }
    in_word = is_letter(c) || c == '_' || (in_word && is_digit(c));
    out += c;
    ++i;
  }
  return out;
}

std::string escape_pattern(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view(".[](){}*+?|^$\\").find(c) != std::string_view::npos) {
      result += '\\';
    }
    result += c;
  }
  return result;
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
  // Longer words are not typing errors, and the cost grows with the square.
  constexpr size_t kLongest = 256;
  // Limits the pairs of characters to compare, since candidates may come from
  // files.
  constexpr size_t kMostPairs = 10'000'000;
  size_t pairs = 0;
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
    pairs += longer * longer;
    if (pairs > kMostPairs) break;
    const size_t distance = edit_distance(lower, lowered(other));
    // Some of the word must remain: `x` does not mean `y`.
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
  // The tail gets two thirds, because names differ at their ends.
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

namespace {

// The first and last code point of a range.
struct Range {
  char32_t first, last;
};

// General category Cc, Cf, Zl and Zp.
constexpr Range kUnprintable[] = {
    {0x0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},
    {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},
    {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},
    {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x2064},   {0x2066, 0x206F},   {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
    {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
    {0xE0001, 0xE0001}, {0xE0020, 0xE007F}};

}  // namespace

bool is_printable(char32_t code_point) {
  if (code_point >= 0x20 && code_point < 0x7F) return true;
  const auto* const found = std::lower_bound(
      std::begin(kUnprintable), std::end(kUnprintable), code_point,
      [](const Range& range, char32_t c) { return range.last < c; });
  return found == std::end(kUnprintable) || code_point < found->first;
}

namespace {

// Ranges include unassigned code points between two ranges of one kind, which
// keeps the tables short.

// General category Mn, Me or Cf (except the signs that enclose digits), and the
// Hangul vowels and finals that join the preceding syllable.
constexpr Range kZero[] = {
    {0x300, 0x36F},     {0x483, 0x489},     {0x591, 0x5BD},
    {0x5BF, 0x5BF},     {0x5C1, 0x5C2},     {0x5C4, 0x5C5},
    {0x5C7, 0x5C7},     {0x610, 0x61A},     {0x61C, 0x61C},
    {0x64B, 0x65F},     {0x670, 0x670},     {0x6D6, 0x6DC},
    {0x6DF, 0x6E4},     {0x6E7, 0x6E8},     {0x6EA, 0x6ED},
    {0x711, 0x711},     {0x730, 0x74A},     {0x7A6, 0x7B0},
    {0x7EB, 0x7F3},     {0x7FD, 0x7FD},     {0x816, 0x819},
    {0x81B, 0x823},     {0x825, 0x827},     {0x829, 0x82D},
    {0x859, 0x85B},     {0x898, 0x89F},     {0x8CA, 0x8E1},
    {0x8E3, 0x902},     {0x93A, 0x93A},     {0x93C, 0x93C},
    {0x941, 0x948},     {0x94D, 0x94D},     {0x951, 0x957},
    {0x962, 0x963},     {0x981, 0x981},     {0x9BC, 0x9BC},
    {0x9C1, 0x9C4},     {0x9CD, 0x9CD},     {0x9E2, 0x9E3},
    {0x9FE, 0xA02},     {0xA3C, 0xA3C},     {0xA41, 0xA51},
    {0xA70, 0xA71},     {0xA75, 0xA75},     {0xA81, 0xA82},
    {0xABC, 0xABC},     {0xAC1, 0xAC8},     {0xACD, 0xACD},
    {0xAE2, 0xAE3},     {0xAFA, 0xB01},     {0xB3C, 0xB3C},
    {0xB3F, 0xB3F},     {0xB41, 0xB44},     {0xB4D, 0xB56},
    {0xB62, 0xB63},     {0xB82, 0xB82},     {0xBC0, 0xBC0},
    {0xBCD, 0xBCD},     {0xC00, 0xC00},     {0xC04, 0xC04},
    {0xC3C, 0xC3C},     {0xC3E, 0xC40},     {0xC46, 0xC56},
    {0xC62, 0xC63},     {0xC81, 0xC81},     {0xCBC, 0xCBC},
    {0xCBF, 0xCBF},     {0xCC6, 0xCC6},     {0xCCC, 0xCCD},
    {0xCE2, 0xCE3},     {0xD00, 0xD01},     {0xD3B, 0xD3C},
    {0xD41, 0xD44},     {0xD4D, 0xD4D},     {0xD62, 0xD63},
    {0xD81, 0xD81},     {0xDCA, 0xDCA},     {0xDD2, 0xDD6},
    {0xE31, 0xE31},     {0xE34, 0xE3A},     {0xE47, 0xE4E},
    {0xEB1, 0xEB1},     {0xEB4, 0xEBC},     {0xEC8, 0xECD},
    {0xF18, 0xF19},     {0xF35, 0xF35},     {0xF37, 0xF37},
    {0xF39, 0xF39},     {0xF71, 0xF7E},     {0xF80, 0xF84},
    {0xF86, 0xF87},     {0xF8D, 0xFBC},     {0xFC6, 0xFC6},
    {0x102D, 0x1030},   {0x1032, 0x1037},   {0x1039, 0x103A},
    {0x103D, 0x103E},   {0x1058, 0x1059},   {0x105E, 0x1060},
    {0x1071, 0x1074},   {0x1082, 0x1082},   {0x1085, 0x1086},
    {0x108D, 0x108D},   {0x109D, 0x109D},   {0x1160, 0x11FF},
    {0x135D, 0x135F},   {0x1712, 0x1714},   {0x1732, 0x1733},
    {0x1752, 0x1753},   {0x1772, 0x1773},   {0x17B4, 0x17B5},
    {0x17B7, 0x17BD},   {0x17C6, 0x17C6},   {0x17C9, 0x17D3},
    {0x17DD, 0x17DD},   {0x180B, 0x180F},   {0x1885, 0x1886},
    {0x18A9, 0x18A9},   {0x1920, 0x1922},   {0x1927, 0x1928},
    {0x1932, 0x1932},   {0x1939, 0x193B},   {0x1A17, 0x1A18},
    {0x1A1B, 0x1A1B},   {0x1A56, 0x1A56},   {0x1A58, 0x1A60},
    {0x1A62, 0x1A62},   {0x1A65, 0x1A6C},   {0x1A73, 0x1A7F},
    {0x1AB0, 0x1B03},   {0x1B34, 0x1B34},   {0x1B36, 0x1B3A},
    {0x1B3C, 0x1B3C},   {0x1B42, 0x1B42},   {0x1B6B, 0x1B73},
    {0x1B80, 0x1B81},   {0x1BA2, 0x1BA5},   {0x1BA8, 0x1BA9},
    {0x1BAB, 0x1BAD},   {0x1BE6, 0x1BE6},   {0x1BE8, 0x1BE9},
    {0x1BED, 0x1BED},   {0x1BEF, 0x1BF1},   {0x1C2C, 0x1C33},
    {0x1C36, 0x1C37},   {0x1CD0, 0x1CD2},   {0x1CD4, 0x1CE0},
    {0x1CE2, 0x1CE8},   {0x1CED, 0x1CED},   {0x1CF4, 0x1CF4},
    {0x1CF8, 0x1CF9},   {0x1DC0, 0x1DFF},   {0x200B, 0x200F},
    {0x202A, 0x202E},   {0x2060, 0x206F},   {0x20D0, 0x20F0},
    {0x2CEF, 0x2CF1},   {0x2D7F, 0x2D7F},   {0x2DE0, 0x2DFF},
    {0x302A, 0x302D},   {0x3099, 0x309A},   {0xA66F, 0xA672},
    {0xA674, 0xA67D},   {0xA69E, 0xA69F},   {0xA6F0, 0xA6F1},
    {0xA802, 0xA802},   {0xA806, 0xA806},   {0xA80B, 0xA80B},
    {0xA825, 0xA826},   {0xA82C, 0xA82C},   {0xA8C4, 0xA8C5},
    {0xA8E0, 0xA8F1},   {0xA8FF, 0xA8FF},   {0xA926, 0xA92D},
    {0xA947, 0xA951},   {0xA980, 0xA982},   {0xA9B3, 0xA9B3},
    {0xA9B6, 0xA9B9},   {0xA9BC, 0xA9BD},   {0xA9E5, 0xA9E5},
    {0xAA29, 0xAA2E},   {0xAA31, 0xAA32},   {0xAA35, 0xAA36},
    {0xAA43, 0xAA43},   {0xAA4C, 0xAA4C},   {0xAA7C, 0xAA7C},
    {0xAAB0, 0xAAB0},   {0xAAB2, 0xAAB4},   {0xAAB7, 0xAAB8},
    {0xAABE, 0xAABF},   {0xAAC1, 0xAAC1},   {0xAAEC, 0xAAED},
    {0xAAF6, 0xAAF6},   {0xABE5, 0xABE5},   {0xABE8, 0xABE8},
    {0xABED, 0xABED},   {0xFB1E, 0xFB1E},   {0xFE00, 0xFE0F},
    {0xFE20, 0xFE2F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},
    {0x101FD, 0x101FD}, {0x102E0, 0x102E0}, {0x10376, 0x1037A},
    {0x10A01, 0x10A0F}, {0x10A38, 0x10A3F}, {0x10AE5, 0x10AE6},
    {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11001, 0x11001}, {0x11038, 0x11046},
    {0x11070, 0x11070}, {0x11073, 0x11074}, {0x1107F, 0x11081},
    {0x110B3, 0x110B6}, {0x110B9, 0x110BA}, {0x110C2, 0x110C2},
    {0x11100, 0x11102}, {0x11127, 0x1112B}, {0x1112D, 0x11134},
    {0x11173, 0x11173}, {0x11180, 0x11181}, {0x111B6, 0x111BE},
    {0x111C9, 0x111CC}, {0x111CF, 0x111CF}, {0x1122F, 0x11231},
    {0x11234, 0x11234}, {0x11236, 0x11237}, {0x1123E, 0x1123E},
    {0x112DF, 0x112DF}, {0x112E3, 0x112EA}, {0x11300, 0x11301},
    {0x1133B, 0x1133C}, {0x11340, 0x11340}, {0x11366, 0x11374},
    {0x11438, 0x1143F}, {0x11442, 0x11444}, {0x11446, 0x11446},
    {0x1145E, 0x1145E}, {0x114B3, 0x114B8}, {0x114BA, 0x114BA},
    {0x114BF, 0x114C0}, {0x114C2, 0x114C3}, {0x115B2, 0x115B5},
    {0x115BC, 0x115BD}, {0x115BF, 0x115C0}, {0x115DC, 0x115DD},
    {0x11633, 0x1163A}, {0x1163D, 0x1163D}, {0x1163F, 0x11640},
    {0x116AB, 0x116AB}, {0x116AD, 0x116AD}, {0x116B0, 0x116B5},
    {0x116B7, 0x116B7}, {0x1171D, 0x1171F}, {0x11722, 0x11725},
    {0x11727, 0x1172B}, {0x1182F, 0x11837}, {0x11839, 0x1183A},
    {0x1193B, 0x1193C}, {0x1193E, 0x1193E}, {0x11943, 0x11943},
    {0x119D4, 0x119DB}, {0x119E0, 0x119E0}, {0x11A01, 0x11A0A},
    {0x11A33, 0x11A38}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47},
    {0x11A51, 0x11A56}, {0x11A59, 0x11A5B}, {0x11A8A, 0x11A96},
    {0x11A98, 0x11A99}, {0x11C30, 0x11C3D}, {0x11C3F, 0x11C3F},
    {0x11C92, 0x11CA7}, {0x11CAA, 0x11CB0}, {0x11CB2, 0x11CB3},
    {0x11CB5, 0x11CB6}, {0x11D31, 0x11D45}, {0x11D47, 0x11D47},
    {0x11D90, 0x11D91}, {0x11D95, 0x11D95}, {0x11D97, 0x11D97},
    {0x11EF3, 0x11EF4}, {0x13430, 0x13438}, {0x16AF0, 0x16AF4},
    {0x16B30, 0x16B36}, {0x16F4F, 0x16F4F}, {0x16F8F, 0x16F92},
    {0x16FE4, 0x16FE4}, {0x1BC9D, 0x1BC9E}, {0x1BCA0, 0x1CF46},
    {0x1D167, 0x1D169}, {0x1D173, 0x1D182}, {0x1D185, 0x1D18B},
    {0x1D1AA, 0x1D1AD}, {0x1D242, 0x1D244}, {0x1DA00, 0x1DA36},
    {0x1DA3B, 0x1DA6C}, {0x1DA75, 0x1DA75}, {0x1DA84, 0x1DA84},
    {0x1DA9B, 0x1DAAF}, {0x1E000, 0x1E02A}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E8D0, 0x1E8D6},
    {0x1E944, 0x1E94A}, {0xE0001, 0xE01EF}};

// East_Asian_Width W or F.
constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},
    {0x23E9, 0x23EC},   {0x23F0, 0x23F0},   {0x23F3, 0x23F3},
    {0x25FD, 0x25FE},   {0x2614, 0x2615},   {0x2648, 0x2653},
    {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},
    {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},
    {0x26CE, 0x26CE},   {0x26D4, 0x26D4},   {0x26EA, 0x26EA},
    {0x26F2, 0x26F3},   {0x26F5, 0x26F5},   {0x26FA, 0x26FA},
    {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},
    {0x2728, 0x2728},   {0x274C, 0x274C},   {0x274E, 0x274E},
    {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
    {0x27B0, 0x27B0},   {0x27BF, 0x27BF},   {0x2B1B, 0x2B1C},
    {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x3029},
    {0x302E, 0x303E},   {0x3041, 0x3096},   {0x309B, 0x3247},
    {0x3250, 0x4DBF},   {0x4E00, 0xA4C6},   {0xA960, 0xA97C},
    {0xAC00, 0xD7A3},   {0xF900, 0xFAD9},   {0xFE10, 0xFE19},
    {0xFE30, 0xFE6B},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x16FE3}, {0x16FF0, 0x1B2FB}, {0x1F004, 0x1F004},
    {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A},
    {0x1F200, 0x1F320}, {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C},
    {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3},
    {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E},
    {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC}, {0x1F4FF, 0x1F53D},
    {0x1F54B, 0x1F54E}, {0x1F550, 0x1F567}, {0x1F57A, 0x1F57A},
    {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4}, {0x1F5FB, 0x1F64F},
    {0x1F680, 0x1F6C5}, {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2},
    {0x1F6D5, 0x1F6DF}, {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC},
    {0x1F7E0, 0x1F7F0}, {0x1F90C, 0x1F93A}, {0x1F93C, 0x1F945},
    {0x1F947, 0x1F9FF}, {0x1FA70, 0x1FAF6}, {0x20000, 0x3134A}};

template <size_t N>
bool contains(const Range (&ranges)[N], char32_t code_point) {
  const auto* after = std::upper_bound(
      std::begin(ranges), std::end(ranges), code_point,
      [](char32_t value, const Range& range) { return value < range.first; });
  return after != std::begin(ranges) && code_point <= (after - 1)->last;
}

}  // namespace

int code_point_width(char32_t code_point) {
  if (code_point < 0x20) return 0;
  if (code_point < 0x7F) return 1;
  if (code_point < 0xA0) return 0;
  if (code_point < kZero[0].first) return 1;
  if (contains(kZero, code_point)) return 0;
  return contains(kWide, code_point) ? 2 : 1;
}

namespace {

struct ByteUnit {
  std::string_view name;
  double bytes;
};
constexpr std::array<ByteUnit, 11> kByteUnits = {{
    {"", 1},
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 0x1p10},
    {"MiB", 0x1p20},
    {"GiB", 0x1p30},
    {"TiB", 0x1p40},
}};

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  const size_t unit_at =
      std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  const char* end = text.data() + unit_at;
  double number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || rest != end) return std::nullopt;
  std::string_view unit = text.substr(unit_at);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto* const found =
      std::ranges::find(kByteUnits, unit, &ByteUnit::name);
  if (found == kByteUnits.end()) return std::nullopt;
  const double bytes = std::floor(number * found->bytes);
  if (!(bytes >= 1 && bytes < 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace shardplan
