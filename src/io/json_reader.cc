// SPDX-License-Identifier: Apache-2.0
#include "io/json_reader.h"

#include <optional>
#include <utility>

namespace shardplan {
namespace {

std::string_view token_kind(JsonScanner::Token token) {
  using Token = JsonScanner::Token;
  switch (token) {
    case Token::BeginObject:
      return "a map";
    case Token::BeginArray:
      return "a list";
    case Token::String:
      return "text";
    case Token::Number:
      return "a number";
    case Token::True:
    case Token::False:
      return "true or false";
    default:
      return "nothing";
  }
}

// Numbers may be as long as the file.
std::string shown(std::string_view number) {
  constexpr size_t kLimit = 30;
  if (number.size() <= kLimit) return std::string(number);
  return std::string(number.substr(0, kLimit)) + "...";
}

}  // namespace

bool JsonReader::advance() {
  if (scanner_.next() != Token::Error) return true;
  scanner_.report(diags_);
  return false;
}

bool JsonReader::malformed(Span where, std::string message) {
  diags_.error(Code::MalformedDocument, where, std::move(message));
  return false;
}

bool JsonReader::expect(Token token, std::string_view what,
                        std::string_view kind) {
  if (scanner_.token() == token) return true;
  return malformed(span(), std::string(what) + " must be " + std::string(kind) +
                               ", not " +
                               std::string(token_kind(scanner_.token())));
}

bool JsonReader::string(std::string_view what, std::string& value) {
  if (!expect(Token::String, what, "text")) return false;
  value = text();
  return true;
}

bool JsonReader::integer(std::string_view what, int64_t& value) {
  if (!expect(Token::Number, what, "an integer")) return false;
  const std::optional<int64_t> read = scanner_.integer();
  if (!read) {
    return malformed(span(), std::string(what) +
                                 " must be an integer below 2^63, not `" +
                                 shown(text()) + "`");
  }
  value = *read;
  return true;
}

bool JsonReader::size(std::string_view what, int64_t& value) {
  if (!integer(what, value)) return false;
  if (value >= 0) return true;
  return malformed(span(), std::string(what) +
                               " must not be negative, but is " +
                               std::to_string(value));
}

bool JsonReader::boolean(std::string_view what, bool& value) {
  value = token() == Token::True;
  return value || expect(Token::False, what, "true or false");
}

bool JsonReader::skip() {
  if (scanner_.skip_value()) return true;
  scanner_.report(diags_);
  return false;
}

bool JsonReader::skip(Span& where) {
  where = span();
  if (!skip()) return false;
  where.end = span().end;
  return true;
}

}  // namespace shardplan
