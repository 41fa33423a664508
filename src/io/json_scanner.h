// SPDX-License-Identifier: Apache-2.0
// A streaming reader of JSON (RFC 8259) that knows where everything stands.
//
// Pulls one token after the other out of a text that somebody keeps in memory
// (usually a mapped file), checking the grammar, string escapes and UTF-8 as it
// goes; nothing is allocated per token. Manifests, checkpoints' headers,
// indices, plans and documents are all read through it. Duplicate keys are the
// caller's to find, since only it knows how many to expect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

  // Key and String: the decoded text, valid until the next call of next().
  // Number: its spelling.
  std::string_view text() const { return text_; }
  // The token, quotes included.
  Span span() const { return {source_, begin_, end_}; }
  // Number: its value, when it is an integer that fits 63 bits.
  std::optional<int64_t> integer() const;

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
  // What may come next, and inside what.
  // (implementation state; see the .cc)
  const SourceFile* source_;
  std::string_view all_;
  uint64_t at_ = 0;
  uint64_t limit_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  Token token_ = Token::Null;
  std::string_view text_;
  std::string scratch_;
  std::vector<char> nesting_;
  std::string error_;
  uint64_t error_begin_ = 0;
  uint64_t error_end_ = 0;
};

}  // namespace shardplan
