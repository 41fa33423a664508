// SPDX-License-Identifier: Apache-2.0
// JsonScanner: a streaming reader of JSON (RFC 8259) that knows the location of
// every token.
//
// It reads one token after the other from a text in memory (usually a mapped
// file), and checks the grammar, string escapes and UTF-8. It allocates nothing
// per token. Manifests, checkpoint headers, indices, plans and documents are
// all read with it. The caller must detect duplicate keys, since only the
// caller knows how many keys to expect.
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
    Error,  // see error(); every further next() returns Error
  };

  // Scans bytes [begin, end) of the source.
  explicit JsonScanner(const SourceFile& source, uint64_t begin = 0,
                       uint64_t end = UINT64_MAX);

  Token next();
  Token token() const { return token_; }

  // For Key and String: the decoded text, valid until the next call of next();
  // a view into the source unless it has escapes. For Number: its spelling.
  std::string_view text() const { return text_; }
  // The token, including quotes.
  Span span() const { return {source_, begin_, end_}; }
  // The value of a Number that is an integer within 63 bits.
  std::optional<int64_t> integer() const;

  // For values that were read before. ahead() returns the text that begins with
  // the next value, or nothing if no value comes next. If it begins with bytes
  // that next() has already read as a whole value elsewhere, skip_known() skips
  // them; the token is then EndObject. REQUIRES: the bytes are an object or a
  // string, and the scanner is no deeper than when it read them.
  std::string_view ahead();
  void skip_known(size_t bytes);

  // Skips the rest of the value that starts with the current token; for scalars
  // nothing. Returns false for a malformed value.
  bool skip_value();

  // Why the text is malformed, and where.
  const std::string& error() const { return error_; }
  Span error_span() const { return {source_, error_begin_, error_end_}; }
  // Reports error() as SP002.
  Diagnostics::Builder report(Diagnostics& diags) const;

  // Deeper nesting is rejected.
  static constexpr size_t kMaxDepth = 256;

 private:
  // The tokens that the grammar allows at `at_`, after blanks.
  enum class Expect : uint8_t {
    Value,       // after `,` in an array, after a key, or at the start
    ItemOrEnd,   // after `[`
    Key,         // after `,` in an object
    KeyOrEnd,    // after `{`
    CommaOrEnd,  // after a value inside an array or object
    Nothing,     // after the outermost value
  };

  char peek() const { return at_ < all_.size() ? all_[at_] : '\0'; }
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
  bool scan_escape();
  bool scan_unicode_escape();
  std::optional<uint32_t> scan_hex4();
  bool fail_in_string();
  // Records the error, located at one character unless `end` is given.
  Token fail(std::string message, uint64_t begin, uint64_t end = 0);
  Token fail_unexpected(std::string_view expected);

  const SourceFile* source_;
  std::string_view all_;  // up to `end`
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

// JsonReader: typed reading with JsonScanner. It reads maps, lists, strings and
// integers, and reports any other value.
//
//   JsonReader reader(source, diags);
//   reader.advance() && reader.map("the index", [&](const std::string& key,
//                                                   Span where) { ... }) &&
//       reader.finish();
//
// When a function is called, the current token is the first of the value; when
// it returns, it is the last. False means that the reason has been reported
// (SP002).

class JsonReader {
 public:
  using Token = JsonScanner::Token;

  // Reads bytes [begin, end) of the source.
  JsonReader(const SourceFile& source, Diagnostics& diags, uint64_t begin = 0,
             uint64_t end = UINT64_MAX)
      : scanner_(source, begin, end), diags_(diags) {}

  // Advances to the next token. Returns false if the text is malformed.
  bool advance();
  // Checks that nothing follows the value just read.
  bool finish() { return advance(); }

  Token token() const { return scanner_.token(); }
  Span span() const { return scanner_.span(); }
  std::string_view text() const { return scanner_.text(); }

  // Calls `entry(key, location of the key)` at the first token of each value,
  // which it must read or skip. If it returns false, reading stops.
  template <typename Entry>
  bool map(std::string_view what, Entry entry) {
    return map(
        what, [](std::string_view, Span) { return false; }, entry);
  }
  // The same, except for values that `skipped(key, location)` skips by
  // JsonScanner::skip_known. It is called after each key.
  template <typename Skipped, typename Entry>
  bool map(std::string_view what, Skipped skipped, Entry entry) {
    if (!expect(Token::BeginObject, what, "a map")) return false;
    std::string key;
    while (advance()) {
      if (token() == Token::EndObject) return true;
      const Span where = span();
      if (skipped(text(), where)) continue;
      key = text();
      if (!advance() || !entry(key, where)) return false;
    }
    return false;
  }
  std::string_view ahead() { return scanner_.ahead(); }
  void skip_known(size_t bytes) { scanner_.skip_known(bytes); }

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
  // Reads an integer of at most 63 bits without fraction or exponent.
  bool integer(std::string_view what, int64_t& value);
  bool boolean(std::string_view what, bool& value);
  // Reads an integer that is not negative.
  bool size(std::string_view what, int64_t& value);
  bool skip();
  // Skips a value and returns its location.
  bool skip(Span& where);

  // Reports SP002 at `where`.
  bool malformed(Span where, std::string message);

 private:
  bool expect(Token token, std::string_view what, std::string_view kind);

  JsonScanner scanner_;
  Diagnostics& diags_;
};

}  // namespace shardplan
