// SPDX-License-Identifier: Apache-2.0
// TokenSource: the tokens of either a JSON text or a Document.
//
// A reader written for it streams large JSON and reads YAML with the same code.
// ErrorLimit counts a reader's errors.
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

// The guarantees of JsonScanner for its tokens also apply here. Aliases of a
// Document are visited every time they occur. The owner of the scanner must
// report the syntax error behind Token::Error.
class TokenSource {
 public:
  using Token = JsonScanner::Token;

  // The argument must outlive this object.
  explicit TokenSource(JsonScanner& json) : json_(&json) {}
  explicit TokenSource(const Document& document) : root_(document.root()) {}

  Token next() { return json_ != nullptr ? json_->next() : next_node(); }
  Token token() const { return json_ != nullptr ? json_->token() : token_; }
  std::string_view text() const {
    return json_ != nullptr ? json_->text() : text_;
  }
  Span span() const { return json_ != nullptr ? json_->span() : span_; }
  std::optional<int64_t> integer() const;
  bool skip_value();
  // The scanner of a text, which can look ahead; null for a Document.
  JsonScanner* scanner() { return json_; }

 private:
  struct Open {
    Node node;
    size_t next = 0;        // entry to read
    bool key_read = false;  // of that entry
  };
  Token next_node();
  Token enter(const Node& node);

  JsonScanner* json_ = nullptr;
  // For a Document: the root until it is read, the enclosing lists and maps,
  // and the current token.
  std::optional<Node> root_;
  std::vector<Open> open_;
  Token token_ = Token::Null;
  std::string_view text_;
  Span span_;
  std::optional<int64_t> integer_;
};

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

}  // namespace shardplan
