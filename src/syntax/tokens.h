// SPDX-License-Identifier: Apache-2.0
// UTF-8 validation for readers (RFC 3629): no overlong forms, no surrogates,
// nothing above U+10FFFF. ErrorLimit, NodeTokens and TokenSource follow below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "syntax/document.h"
#include "syntax/json.h"

namespace shardplan {

// Returns the bytes of the code point at `at`; 0 if they are not valid.
// REQUIRES: at < text.size().
inline size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4 || !continues(1)) return 0;
  if (lead < 0xE0) return 2;
  if (!continues(2)) return 0;
  const uint32_t first_two = lead << 8U | byte(1);
  if (lead < 0xF0) {
    const bool overlong = first_two < 0xE0A0;
    const bool surrogate = first_two >= 0xEDA0 && lead == 0xED;
    return overlong || surrogate ? 0 : 3;
  }
  const bool in_range = first_two >= 0xF090 && first_two < 0xF490;
  return in_range && continues(3) ? 4 : 0;
}

inline void append_utf8(std::string& text, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | code_point >> 6U);
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | code_point >> 12U);
    put(0x80U | (code_point >> 6U & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | code_point >> 18U);
    put(0x80U | (code_point >> 12U & 0x3FU));
    put(0x80U | (code_point >> 6U & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

// The escape of a code point that Python and YAML share: \x0a, \u202e, and a
// backslash before a quote or a backslash.

// Returns the escape, or "" if the character needs none.
std::string text_escape(char32_t code);
// Returns the escape of the character at `begin`. Also escapes a `#` after
// another, as in JSON (append_printable_json).
std::string text_escape_at(std::string_view text, size_t begin, char32_t code);

// ErrorLimit: allows several errors in one run, but not a million.
//
// A reader reports through it and stops once stopped() is true. A note at the
// location of the last error says that reading stopped.

class ErrorLimit {
 public:
  // `what` is the text that is read: "the manifest".
  ErrorLimit(Diagnostics& diags, std::string_view what)
      : diags_(diags), what_(what) {}

  bool stopped() const { return errors_ >= kMaxErrors; }
  size_t errors() const { return errors_; }
  Diagnostics& diags() { return diags_; }

  Diagnostics::Builder error(Code code, Span where, std::string message) {
    const auto problem = diags_.error(code, where, std::move(message));
    count(where);
    return problem;
  }
  Diagnostics::Builder malformed(Span where, std::string message) {
    return error(Code::MalformedDocument, where, std::move(message));
  }
  void unknown_key(std::string_view key, Span where,
                   std::span<const std::string> known) {
    report_unknown_key(key, where, known, diags_);
    count(where);
  }

 private:
  void count(Span where) {
    if (++errors_ != kMaxErrors) return;
    diags_.report(Code::MalformedDocument, Severity::Note, where,
                  "stopped reading " + what_ + ": too many errors");
  }

  Diagnostics& diags_;
  std::string what_;
  size_t errors_ = 0;
};

// NodeTokens: reads a Document token by token, as JsonScanner reads a text.
//
// So a reader written for JsonScanner's functions streams large JSON and reads
// YAML with the same code. Aliases are visited every time they occur.

class NodeTokens {
 public:
  using Token = JsonScanner::Token;

  // The document must outlive this object.
  explicit NodeTokens(const Document& document) : root_(document.root()) {}

  Token next();
  Token token() const { return token_; }
  std::string_view text() const { return text_; }
  Span span() const { return span_; }
  std::optional<int64_t> integer() const;
  bool skip_value();

 private:
  struct Open {
    Node node;
    size_t next = 0;        // entry to read
    bool key_read = false;  // of that entry
  };
  Token enter(const Node& node);

  Node root_;
  bool started_ = false;
  std::vector<Open> open_;
  Token token_ = Token::Null;
  std::string_view text_;
  Span span_;
  std::optional<int64_t> integer_;
};

// TokenSource: the tokens of either a JSON text or a Document.
//
// A reader written for it streams large JSON and reads YAML with the same code.
// The guarantees of JsonScanner for its tokens also apply here. The owner of
// the scanner must report the syntax error behind Token::Error.

class TokenSource {
 public:
  using Token = JsonScanner::Token;

  // The argument must outlive this object.
  explicit TokenSource(JsonScanner& json) : json_(&json) {}
  explicit TokenSource(NodeTokens& nodes) : nodes_(&nodes) {}

  Token next() { return json_ != nullptr ? json_->next() : nodes_->next(); }
  Token token() const {
    return json_ != nullptr ? json_->token() : nodes_->token();
  }
  std::string_view text() const {
    return json_ != nullptr ? json_->text() : nodes_->text();
  }
  Span span() const {
    return json_ != nullptr ? json_->span() : nodes_->span();
  }
  std::optional<int64_t> integer() const {
    return json_ != nullptr ? json_->integer() : nodes_->integer();
  }
  bool skip_value() {
    return json_ != nullptr ? json_->skip_value() : nodes_->skip_value();
  }
  // The scanner of a text, which can look ahead; null for a Document.
  JsonScanner* scanner() { return json_; }

 private:
  JsonScanner* json_ = nullptr;
  NodeTokens* nodes_ = nullptr;
};

}  // namespace shardplan
