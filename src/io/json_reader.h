// SPDX-License-Identifier: Apache-2.0
// Typed reading on top of JsonScanner: maps, lists, texts and integers, with
// the message when something else stands there.
//
//   JsonReader reader(source, diags);
//   reader.advance() && reader.map("the index", [&](const std::string& key,
//                                                   Span where) { ... }) &&
//       reader.finish();
//
// Every reader starts with the current token being the value's first and ends
// on its last. False means that the reason has been reported (SP002).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"
#include "io/json_scanner.h"

namespace shardplan {

class JsonReader {
 public:
  using Token = JsonScanner::Token;

  // Reads bytes [begin, end) of the source.
  JsonReader(const SourceFile& source, Diagnostics& diags, uint64_t begin = 0,
             uint64_t end = UINT64_MAX)
      : scanner_(source, begin, end), diags_(diags) {}

  // To the next token; false when the text is malformed.
  bool advance();
  // Nothing may follow the value just read.
  bool finish() { return advance(); }

  Token token() const { return scanner_.token(); }
  Span span() const { return scanner_.span(); }
  std::string_view text() const { return scanner_.text(); }

  // Calls `entry(key, place of the key)` at the first token of each value,
  // which it must read or skip; false from it ends the reading.
  template <typename Entry>
  bool map(std::string_view what, Entry entry) {
    if (!expect(Token::BeginObject, what, "a map")) return false;
    std::string key;
    while (advance()) {
      if (token() == Token::EndObject) return true;
      key = text();
      const Span where = span();
      if (!advance() || !entry(key, where)) return false;
    }
    return false;
  }

  // Calls `item()` at the first token of each item.
  template <typename Item>
  bool list(std::string_view what, Item item) {
    if (!expect(Token::BeginArray, what, "a list")) return false;
    while (advance()) {
      if (token() == Token::EndArray) return true;
      if (!item()) return false;
    }
    return false;
  }

  bool string(std::string_view what, std::string& value);
  // An integer written without fraction or exponent, of at most 63 bits.
  bool integer(std::string_view what, int64_t& value);
  bool boolean(std::string_view what, bool& value);
  // As integer(), and not negative.
  bool size(std::string_view what, int64_t& value);
  bool skip();
  // Skips a value and gives its place.
  bool skip(Span& where);

  // Reports SP002 at `where`.
  bool malformed(Span where, std::string message);

 private:
  bool expect(Token token, std::string_view what, std::string_view kind);

  JsonScanner scanner_;
  Diagnostics& diags_;
};

}  // namespace shardplan
