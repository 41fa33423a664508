// SPDX-License-Identifier: Apache-2.0
// TokenSource: the tokens of a JSON text or of a Document, whichever it is.
//
// A reader written against it streams large JSON and reads YAML with the same
// code. What a JsonScanner promises of its tokens holds here too; the syntax
// error behind Token::Error is the owner of the scanner's to report.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/source.h"
#include "io/json_scanner.h"
#include "io/node_tokens.h"

namespace shardplan {

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
