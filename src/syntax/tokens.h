// SPDX-License-Identifier: Apache-2.0
// NodeTokens: a Document read token by token, as a JsonScanner reads a text.
//
// A reader written against JsonScanner's functions streams large JSON and reads
// YAML with the same code. Aliases are walked as often as they stand there.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "syntax/document.h"
#include "syntax/json.h"

namespace shardplan {

class NodeTokens {
 public:
  using Token = JsonScanner::Token;

  // The document must outlive this.
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

// TokenSource: the tokens of a JSON text or of a Document, whichever it is.
//
// A reader written against it streams large JSON and reads YAML with the same
// code. What a JsonScanner promises of its tokens holds here too; the syntax
// error behind Token::Error is the owner of the scanner's to report.

class TokenSource {
 public:
  using Token = JsonScanner::Token;

  // What is given must outlive this.
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

 private:
  JsonScanner* json_ = nullptr;
  NodeTokens* nodes_ = nullptr;
};

}  // namespace shardplan
