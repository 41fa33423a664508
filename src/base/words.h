// SPDX-License-Identifier: Apache-2.0
// Helpers for words: joining lists, finding names, lines and numbers in a text,
// and suggesting the known word that was meant.
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

// Joins the results of `text_of`, with `between` between them.
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

// Returns the first item with that name, or null.
template <typename Range>
auto* find_named(Range&& range, std::string_view name) {
  for (auto& each : range) {
    if (each.name == name) return &each;
  }
  return static_cast<decltype(&*std::begin(range))>(nullptr);
}

// Returns whether the item is in the range.
template <typename Range, typename Item>
requires(!std::convertible_to<const Range&, std::string_view>) bool contains(
    const Range& range, const Item& item) {
  return std::find(std::begin(range), std::end(range), item) != std::end(range);
}
// Returns whether `part` occurs in the text.
inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}
inline bool contains(std::string_view text, char part) {
  return text.find(part) != text.npos;
}

// Returns the names of all items, in order.
template <typename Range>
std::vector<std::string> all_names(const Range& range) {
  std::vector<std::string> names;
  for (const auto& each : range) names.emplace_back(each.name);
  return names;
}

// Returns whether `word` is one of the blank-separated words.
bool has_word(std::string_view words, std::string_view word);

// Returns the text in lower case; converts ASCII letters only.
std::string lower_case(std::string_view text);

// Parses the whole text as a decimal number; empty if it is not one.
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

// Removes the first line and its end from `rest`, and returns it.
std::string_view next_line(std::string_view& rest);
// Removes the part before the next `separator`, and the separator, from `rest`,
// and returns the part.
std::string_view next_part(std::string_view& rest, char separator);

// Adds "did you mean `x`?" with the known word that is nearest; if none is
// near, adds `otherwise`.
Diagnostics::Builder suggest(Diagnostics::Builder report, std::string_view word,
                             std::span<const std::string> known,
                             std::string otherwise = "");

}  // namespace shardplan
