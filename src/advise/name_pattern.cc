// SPDX-License-Identifier: Apache-2.0
// Finds endings that separate names, and corrects the words of patterns.
#include "advise/name_pattern.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// A folded name in pieces: its components, each with the separator after it.
using Pieces = std::vector<std::string_view>;

Pieces pieces_of(std::string_view name) {
  Pieces pieces;
  size_t begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '/' && name[i] != '.') continue;
    pieces.push_back(name.substr(begin, i + 1 - begin));
    begin = i + 1;
  }
  pieces.push_back(name.substr(begin));
  return pieces;
}

bool is_number(std::string_view piece) {
  return piece == "*" || piece == "*/" || piece == "*.";
}

std::string escaped(std::string_view piece) {
  if (is_number(piece)) return "[0-9]+" + escaped(piece.substr(1));
  return escape_pattern(piece);
}

// The last pieces of several names: one text per piece, or alternatives.
struct Ending {
  std::vector<std::vector<std::string_view>> pieces;  // distinct, per piece

  std::string pattern() const {
    std::string text;
    for (const auto& alternatives : pieces) {
      if (alternatives.size() == 1) {
        text += escaped(alternatives.front());
        continue;
      }
      // A separator that all alternatives share is placed after them.
      const char last = alternatives.front().back();
      const bool separated = last == '/' || last == '.';
      std::string choices;
      for (std::string_view piece : alternatives) {
        if (separated) piece.remove_suffix(1);
        choices += "|" + escaped(piece);
      }
      text += "(" + choices.substr(1) + ")";
      if (separated) text += escaped(std::string_view(&last, 1));
    }
    return text + "$";
  }

  // Returns whether the pattern matches a folded name.
  bool ends(std::string_view name) const {
    for (size_t i = pieces.size(); i-- > 0;) {
      const auto found = std::ranges::find_if(
          pieces[i],
          [&](std::string_view piece) { return name.ends_with(piece); });
      if (found == pieces[i].end()) return false;
      name.remove_suffix(found->size());
    }
    return true;
  }
};

// The most alternatives that a pattern may have.
constexpr size_t kMaxAlternatives = 6;

// Returns the last `count` pieces of all names. Stops collecting alternatives
// once there are too many.
Ending ending_of(const std::vector<Pieces>& names, size_t count) {
  Ending ending;
  for (size_t i = count; i-- > 0;) {
    std::vector<std::string_view> distinct;
    for (const Pieces& pieces : names) {
      if (distinct.size() > kMaxAlternatives) break;
      const std::string_view piece = pieces[pieces.size() - 1 - i];
      if (!contains(distinct, piece)) distinct.push_back(piece);
    }
    ending.pieces.push_back(std::move(distinct));
  }
  return ending;
}

// Returns whether an ending can be a pattern. One component may have
// alternatives, if all end in the same separator and none is a number. The
// first component may not be a number, since a search would match within a
// longer one.
bool is_usable(const Ending& ending) {
  size_t with_alternatives = 0;
  // Returns the separator at the end; '\0' for another character.
  const auto separator_of = [](std::string_view piece) {
    return piece.ends_with('/') || piece.ends_with('.') ? piece.back() : '\0';
  };
  for (const auto& alternatives : ending.pieces) {
    if (alternatives.size() == 1) continue;
    ++with_alternatives;
    if (alternatives.size() > kMaxAlternatives) return false;
    for (const std::string_view piece : alternatives) {
      if (piece.empty() || is_number(piece) ||
          separator_of(piece) != separator_of(alternatives.front())) {
        return false;
      }
    }
  }
  return with_alternatives <= 1 && !is_number(ending.pieces.front().front());
}

// Parts of a pattern that match names whatever their numbers are. A part comes
// before its own prefixes.
constexpr std::array<std::string_view, 19> kBlindToNumbers = {
    "[0-9]+", "[^./]+", "[^.]+", "[^/]+", "[./]", "\\d+", "\\w+",
    "(?:",    ".*",     ".+",    "\\.",   "\\/",  "(",    ")",
    "|",      "^",      "$",     "/",     "-"};

bool is_word_char(char c) { return is_letter(c) || c == '_'; }

// Returns the words that names consist of: `q_proj`, and the `_proj` that
// remains of it next to alternatives.
std::vector<std::string> words_of(std::span<const std::string> names) {
  std::set<std::string> words;
  for (const std::string& name : names) {
    for (std::string_view piece : pieces_of(name)) {
      if (piece.ends_with('.') || piece.ends_with('/')) piece.remove_suffix(1);
      words.emplace(piece);
      const size_t joint = piece.rfind('_');
      if (joint != piece.npos) words.emplace(piece.substr(joint));
    }
  }
  return {words.begin(), words.end()};
}

// Replaces words by the nearest ones. `is_known` selects the words that remain.
template <typename IsKnown>
std::optional<std::string> with_nearest(std::string_view pattern,
                                        const std::vector<std::string>& words,
                                        const IsKnown& is_known) {
  constexpr size_t kShortest = 4;  // any three letters are near many others
  std::string text;
  bool is_other = false;
  while (!pattern.empty()) {
    size_t end = 0;
    while (end < pattern.size() && is_word_char(pattern[end])) ++end;
    const std::string_view word = pattern.substr(0, end);
    if (end == 0) {
      const auto part = std::ranges::find_if(
          kBlindToNumbers,
          [&](std::string_view blind) { return pattern.starts_with(blind); });
      if (part == kBlindToNumbers.end()) return std::nullopt;
      end = part->size();
      text += *part;
    } else if (word.size() < kShortest || is_known(word)) {
      text += word;
    } else {
      const auto meant = nearest(word, words);
      if (!meant) return std::nullopt;
      text += escape_pattern(*meant);
      is_other = is_other || *meant != word;
    }
    pattern.remove_prefix(end);
  }
  if (!is_other) return std::nullopt;
  return text;
}

}  // namespace

std::optional<std::string> spelling_corrected(
    std::string_view pattern, std::span<const std::string> names) {
  const std::vector<std::string> words = words_of(names);
  const auto is_somewhere = [&](std::string_view word) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return contains(name, word); });
  };
  // `embed_token` occurs in `embed_tokens`, so such a word is replaced only if
  // no other word is unknown.
  const auto is_whole = [&](std::string_view word) {
    return std::ranges::binary_search(words, word);
  };
  if (auto other = with_nearest(pattern, words, is_somewhere)) return other;
  return with_nearest(pattern, words, is_whole);
}

std::optional<std::string> pattern_for(
    std::span<const std::string_view> targets,
    std::span<const std::string_view> others) {
  constexpr size_t kLeast = 2;  // components, if names have that many
  if (targets.empty()) return std::nullopt;
  std::vector<Pieces> names;
  size_t shortest = SIZE_MAX;
  size_t longest = 0;
  for (const std::string_view target : targets) {
    names.push_back(pieces_of(target));
    shortest = std::min(shortest, names.back().size());
    longest = std::max(longest, names.back().size());
  }
  for (size_t count = std::min(kLeast, shortest); count <= shortest; ++count) {
    const Ending ending = ending_of(names, count);
    if (!is_usable(ending)) continue;
    const auto found = [&](std::string_view name) { return ending.ends(name); };
    if (std::ranges::none_of(others, found)) return ending.pattern();
    // These are whole names, so only an anchor at the beginning can separate
    // them.
    const auto whole = [&](std::string_view name) {
      return ending.ends(name) && pieces_of(name).size() == count;
    };
    if (count == longest && std::ranges::none_of(others, whole)) {
      return "^" + ending.pattern();
    }
  }
  return std::nullopt;
}

}  // namespace shardplan
