// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include <fmt/format.h>

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

// Avoids printf, whose decimal point depends on the locale.
std::string fixed(double value, int decimals) {
  return fmt::format("{:.{}f}", value, decimals);
}

// Returns the number of decimals that shows three or four digits, judged after
// rounding: 9.996 is "10.0", not "10.00".
int size_decimals(double value) { return value < 9.995 ? 2 : 1; }

// The same for exactly three digits.
int three_digits(double value) {
  return value < 99.95 ? size_decimals(value) : 0;
}

std::u32string code_points(std::string_view text) {
  std::u32string points;
  for (size_t at = 0; at < text.size();) {
    points.push_back(decode_utf8(text, at));
  }
  return points;
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

std::string bytes_text(double bytes) {
  static constexpr std::array<const char*, 7> kUnits = {
      " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  if (std::isnan(bytes)) return "undefined";
  if (std::isinf(bytes)) return "infinite";
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
  return fmt::format("{:.{}f} {}s", seconds / unit->size,
                     three_digits(size / unit->size), unit->prefix);
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
  return fixed(value, three_digits(std::abs(value))) + kNames.at(name);
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
  return next_part(rest, '\n');
}

std::string_view next_part(std::string_view& rest, char separator) {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    if (next_part(words, ' ') == word) return true;
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
    if (contains(".[](){}*+?|^$\\", c)) result += '\\';
    result += c;
  }
  return result;
}

std::string list_text(std::span<const int64_t> numbers, size_t limit) {
  std::vector<std::string> texts;
  for (const int64_t number : numbers.first(std::min(numbers.size(), limit))) {
    texts.push_back(std::to_string(number));
  }
  if (texts.size() == numbers.size()) return joined(texts, ", ", " or ");
  texts.push_back("...");
  return joined(texts, ", ");
}

std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates) {
  // Longer words are not typing errors, and the cost grows with the square.
  constexpr size_t kLongest = 256;
  // Limits the pairs of characters to compare, since candidates may come from
  // files.
  constexpr size_t kMostPairs = 10'000'000;
  size_t pairs = 0;
  word = word.substr(0, 4 * kLongest + 1);
  const std::u32string exact = code_points(word);
  if (exact.empty() || exact.size() > kLongest) return std::nullopt;
  const std::u32string lower = code_points(lower_case(word));
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
    const size_t distance =
        edit_distance(lower, code_points(lower_case(candidate)));
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

std::optional<int64_t> parse_bytes(std::string_view text) {
  const size_t unit_at =
      std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  const auto number = parse_real(text.substr(0, unit_at));
  std::string_view name = text.substr(unit_at);
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  const ByteUnit* const unit = find_named(kByteUnits, name);
  if (!number || unit == nullptr) return std::nullopt;
  const double bytes = std::floor(*number * unit->bytes);
  if (!(bytes >= 1 && bytes < 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace shardplan
