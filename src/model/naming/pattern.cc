// SPDX-License-Identifier: Apache-2.0
// Name patterns, and the values of their placeholders in a name.
#include <algorithm>
#include <string>

#include "base/checked.h"
#include "base/words.h"
#include "core/fold.h"
#include "model/naming/name_scheme.h"

namespace shardplan {
namespace {

using PieceKind = NamePiece::Kind;

// Removes a number from the beginning of `rest`.
std::optional<int64_t> take_number(std::string_view& rest) {
  const size_t length =
      std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (length == 0 || length > 9 || (length > 1 && rest.front() == '0')) {
    return std::nullopt;
  }
  const auto number = parse_integer(rest.substr(0, length));
  rest.remove_prefix(length);
  return number;
}

// Matches the pieces from `begin` to `end`, none of which is Any. Returns the
// rest of the name.
std::optional<std::string_view> take_pieces(const NamePattern& pattern,
                                            size_t begin, size_t end,
                                            std::string_view rest,
                                            NameMatch& match) {
  for (size_t i = begin; i < end; ++i) {
    const NamePiece& piece = pattern.pieces[i];
    if (piece.kind == PieceKind::Text) {
      if (!rest.starts_with(piece.text)) return std::nullopt;
      rest.remove_prefix(piece.text.size());
      continue;
    }
    const auto number = take_number(rest);
    if (!number) return std::nullopt;
    match.numbers.emplace_back(piece.text, *number);
  }
  return rest;
}

}  // namespace

std::optional<NameMatch> match_name(const NamePattern& pattern,
                                    std::string_view name) {
  const size_t count = pattern.pieces.size();
  const auto found =
      std::ranges::find(pattern.pieces, PieceKind::Any, &NamePiece::kind);
  const size_t any = to_size(found - pattern.pieces.begin());
  NameMatch match;
  const auto rest = take_pieces(pattern, 0, any, name, match);
  if (!rest) return std::nullopt;
  if (any == count) {
    if (!rest->empty()) return std::nullopt;
    return match;
  }
  // The pieces after Any match at the end; Any matches as much text as
  // possible.
  const size_t before = match.numbers.size();
  for (size_t length = rest->size(); length >= 1; --length) {
    const auto end =
        take_pieces(pattern, any + 1, count, rest->substr(length), match);
    if (end && end->empty()) {
      match.any = rest->substr(0, length);
      return match;
    }
    match.numbers.resize(before);
  }
  return std::nullopt;
}

bool may_match_folded(const NamePattern& pattern, std::string_view folded) {
  // Compares only the text before the first placeholder that is not a whole
  // component.
  const auto separates = [&](size_t piece, bool at_end) {
    if (piece >= pattern.pieces.size()) return true;  // also before the first
    const NamePiece& other = pattern.pieces[piece];
    if (other.kind != PieceKind::Text) return false;
    const char c = at_end ? other.text.back() : other.text.front();
    return c == '.' || c == '/';
  };
  std::string begin;
  bool whole = true;
  for (size_t i = 0; i < pattern.pieces.size() && whole; ++i) {
    const NamePiece& piece = pattern.pieces[i];
    whole = piece.kind == PieceKind::Text ||
            (piece.kind == PieceKind::Number && separates(i - 1, true) &&
             separates(i + 1, false));
    if (whole) begin += piece.kind == PieceKind::Text ? piece.text : "0";
  }
  if (whole) return folded_name(begin) == folded;
  // Drops the last component, which continues in the placeholder.
  const size_t dot = begin.find_last_of("./");
  begin.resize(dot == begin.npos ? 0 : dot + 1);
  return folded.starts_with(folded_name(begin));
}

}  // namespace shardplan
