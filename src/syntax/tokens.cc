// SPDX-License-Identifier: Apache-2.0

#include "syntax/tokens.h"

#include <utility>

namespace shardplan {

TokenSource::Token TokenSource::next_node() {
  if (open_.empty()) {
    const auto root = std::exchange(root_, std::nullopt);
    return token_ = root ? enter(*root) : Token::End;
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

TokenSource::Token TokenSource::enter(const Node& node) {
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

std::optional<int64_t> TokenSource::integer() const {
  if (json_ != nullptr) return json_->integer();
  return token_ == Token::Number ? integer_ : std::nullopt;
}

bool TokenSource::skip_value() {
  if (json_ != nullptr) return json_->skip_value();
  if (token_ == Token::BeginObject || token_ == Token::BeginArray) {
    const size_t outside = open_.size() - 1;
    while (open_.size() > outside) next();
  }
  return true;
}

}  // namespace shardplan
