// SPDX-License-Identifier: Apache-2.0
// What readers and reports do with words: lists of them, names that are looked
// up, lines and numbers in a text, and the known word that was meant.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace shardplan {

// What `text_of` makes of each, with `between` between them.
template <typename Range, typename TextOf>
std::string joined_of(const Range& range, std::string_view between,
                      TextOf text_of) {
  std::string all;
  for (const auto& each : range) {
    if (!all.empty()) all += between;
    all += std::invoke(text_of, each);
  }
  return all;
}

// The first of that name, or null.
template <typename Range>
auto* find_named(Range&& range, std::string_view name) {
  for (auto& each : range) {
    if (each.name == name) return &each;
  }
  return static_cast<decltype(&*std::begin(range))>(nullptr);
}

// Whether it is an item of the range.
template <typename Range, typename Item>
requires(!std::convertible_to<const Range&, std::string_view>) bool contains(
    const Range& range, const Item& item) {
  return std::find(std::begin(range), std::end(range), item) != std::end(range);
}
// Whether it is a part of the text.
inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}
inline bool contains(std::string_view text, char part) {
  return text.find(part) != text.npos;
}

// The names of all, in their order.
template <typename Range>
std::vector<std::string> all_names(const Range& range) {
  std::vector<std::string> names;
  for (const auto& each : range) names.emplace_back(each.name);
  return names;
}

// Whether `word` is one of the words, which blanks separate.
bool has_word(std::string_view words, std::string_view word);

// ASCII letters only.
std::string lower_case(std::string_view text);

// The whole text as a number in digits; empty when it is none.
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

// Takes the first line, and the end of it, off the text.
std::string_view next_line(std::string_view& rest);

// Adds "did you mean `x`?", the known word that is nearest; else `otherwise`.
Diagnostics::Builder suggest(Diagnostics::Builder report, std::string_view word,
                             std::span<const std::string> known,
                             std::string otherwise = "");

}  // namespace shardplan
