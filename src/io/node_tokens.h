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
#include "io/document.h"
#include "io/json_scanner.h"

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

}  // namespace shardplan
