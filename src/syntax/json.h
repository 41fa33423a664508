// SPDX-License-Identifier: Apache-2.0
// A streaming reader of JSON (RFC 8259) that knows where everything stands.
//
// Pulls one token after the other out of a text that somebody keeps in memory
// (usually a mapped file), checking the grammar, string escapes and UTF-8 as it
// goes; nothing is allocated per token. Manifests, checkpoints' headers,
// indices, plans and documents are all read through it. Duplicate keys are the
// caller's to find, since only it knows how many to expect.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/source.h"

namespace shardplan {

class JsonScanner {
 public:
  enum class Token : uint8_t {
    BeginObject,
    EndObject,
    BeginArray,
    EndArray,
    Key,
    String,
    Number,
    True,
    False,
    Null,
    End,    // the document is complete
    Error,  // see error(); every further next() gives Error again
  };

  // Scans bytes [begin, end) of the source.
  explicit JsonScanner(const SourceFile& source, uint64_t begin = 0,
                       uint64_t end = UINT64_MAX);

  Token next();
  Token token() const { return token_; }

  // Key and String: the decoded text, valid until the next call of next(); a
  // view into the source unless it has escapes. Number: its spelling.
  std::string_view text() const { return text_; }
  // The token, quotes included.
  Span span() const { return {source_, begin_, end_}; }
  // Number: its value, when it is an integer that fits 63 bits.
  std::optional<int64_t> integer() const;

  // What follows where a value is to begin, which next() would read; empty
  // where something else is to come. Of text that next() has read as a whole
  // value before, and that stands here again, take() skips so many bytes: that
  // value is the token then, as an object that has been closed.
  // REQUIRES: these bytes are an object or a text, and the scanner is no deeper
  // than it was there.
  std::string_view ahead();
  void take(size_t bytes);

  // Skips the rest of the value that starts with the current token (for
  // scalars nothing). False on a malformed value.
  bool skip_value();

  // Why the text is malformed, and where.
  const std::string& error() const { return error_; }
  Span error_span() const { return {source_, error_begin_, error_end_}; }
  // Reports error() as SP002.
  Diagnostics::Builder report(Diagnostics& diags) const;

  // Nesting deeper than this is refused.
  static constexpr size_t kMaxDepth = 256;

 private:
  // What the grammar allows at `at_`, blanks aside.
  enum class Expect : uint8_t {
    Value,       // after `,` in an array, after a key, or at the start
    ItemOrEnd,   // after `[`
    Key,         // after `,` in an object
    KeyOrEnd,    // after `{`
    CommaOrEnd,  // after a value inside an array or object
    Nothing,     // after the outermost value
  };

  void skip_blanks();
  Token scan_value();
  Token scan_key();
  Token scan_after_value();
  Token scan_after_document();
  Token open(Token token, Expect expect);
  Token close(Token token);
  Token finish_value(Token token);
  Token scan_literal(std::string_view word, Token token);
  Token scan_number();
  bool scan_digits(std::string_view where);
  bool scan_string();
  bool scan_rest_of_escaped_string(uint64_t plain_from);
  bool scan_escape();
  bool scan_unicode_escape();
  std::optional<uint32_t> scan_hex4();
  bool fail_in_string();
  // Records the error; the place is one character unless `end` is given.
  Token fail(std::string message, uint64_t begin, uint64_t end = 0);
  Token fail_unexpected(std::string_view expected);

  const SourceFile* source_;
  std::string_view all_;  // up to the limit
  uint64_t at_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  Token token_ = Token::Null;
  Expect expect_ = Expect::Value;
  std::string_view text_;
  std::string scratch_;  // decoded text of a string with escapes
  size_t depth_ = 0;
  std::array<bool, kMaxDepth> in_object_{};  // per level of nesting
  std::string error_;
  uint64_t error_begin_ = 0;
  uint64_t error_end_ = 0;
};

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
    return map(
        what, [](std::string_view, Span) { return false; }, entry);
  }
  // The same, but values that `taken(key, place)` takes (JsonScanner::take),
  // which is called behind the key.
  template <typename Taken, typename Entry>
  bool map(std::string_view what, Taken taken, Entry entry) {
    if (!expect(Token::BeginObject, what, "a map")) return false;
    std::string key;
    while (advance()) {
      if (token() == Token::EndObject) return true;
      const Span where = span();
      if (taken(text(), where)) continue;
      key = text();
      if (!advance() || !entry(key, where)) return false;
    }
    return false;
  }
  std::string_view ahead() { return scanner_.ahead(); }
  void take(size_t bytes) { scanner_.take(bytes); }

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
