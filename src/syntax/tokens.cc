// SPDX-License-Identifier: Apache-2.0

#include "syntax/tokens.h"

namespace shardplan {

NodeTokens::Token NodeTokens::next() {
  if (open_.empty()) {
    if (started_) return token_ = Token::End;
    started_ = true;
    return token_ = enter(root_);
  }
  Open& inner = open_.back();
  const Node node = inner.node;
  if (inner.next == node.size()) {
    const Span whole = node.span();
    span_ = {whole.file, whole.end, whole.end};
    open_.pop_back();
    return token_ = node.is_map() ? Token::EndObject : Token::EndArray;
  }
  if (node.is_map() && !inner.key_read) {
    inner.key_read = true;
    text_ = node.key(inner.next);
    span_ = node.key_span(inner.next);
    return token_ = Token::Key;
  }
  inner.key_read = false;
  return token_ = enter(node.item(inner.next++));
}

NodeTokens::Token NodeTokens::enter(const Node& node) {
  text_ = node.text();
  span_ = node.span();
  switch (node.kind()) {
    case NodeKind::Null:
      return Token::Null;
    case NodeKind::Bool:
      return *node.boolean() ? Token::True : Token::False;
    case NodeKind::Integer:
    case NodeKind::Real:
      integer_ = node.integer();
      return Token::Number;
    case NodeKind::String:
      return Token::String;
    case NodeKind::List:
    case NodeKind::Map:
      break;
  }
  open_.push_back({node});
  return node.is_map() ? Token::BeginObject : Token::BeginArray;
}

std::optional<int64_t> NodeTokens::integer() const {
  return token_ == Token::Number ? integer_ : std::nullopt;
}

bool NodeTokens::skip_value() {
  if (token_ == Token::BeginObject || token_ == Token::BeginArray) {
    const size_t outside = open_.size() - 1;
    while (open_.size() > outside) next();
  }
  return true;
}

}  // namespace shardplan
