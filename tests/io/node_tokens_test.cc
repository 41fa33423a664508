// SPDX-License-Identifier: Apache-2.0
#include "io/node_tokens.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

template <typename Tokens>
std::string all_tokens(Tokens& tokens) {
  using Token = JsonScanner::Token;
  std::string all;
  while (tokens.next() != Token::End) {
    all += "{}[]ksntf0.!"[static_cast<size_t>(tokens.token())];
    if (tokens.token() == Token::Key || tokens.token() == Token::String ||
        tokens.token() == Token::Number) {
      all += "<" + std::string(tokens.text()) + ">";
      all += tokens.span().text();
    }
    if (tokens.integer()) all += "=" + std::to_string(*tokens.integer());
  }
  return all;
}

Document document(const std::string& text) {
  Diagnostics diags;
  auto parsed = parse_document(std::make_shared<SourceFile>("t", text), diags);
  REQUIRE(parsed);
  return *std::move(parsed);
}

TEST_CASE("a document gives the tokens of its text") {
  const std::string text =
      R"({"a": [1, -2.5, true, false, null, "x"], "b": {}, "c": [[]]})";
  const Document parsed = document(text);
  NodeTokens tokens(parsed);
  const SourceFile source("t", text);
  JsonScanner scanner(source);
  CHECK(all_tokens(tokens) == all_tokens(scanner));
}

TEST_CASE("a scalar document is one token") {
  const Document parsed = document("hello");
  NodeTokens tokens(parsed);
  CHECK(tokens.next() == NodeTokens::Token::String);
  CHECK(tokens.next() == NodeTokens::Token::End);
  CHECK(tokens.next() == NodeTokens::Token::End);
}

TEST_CASE("skipping goes to the last token of a value") {
  const Document parsed = document("{a: {b: [1]}, c: 2}");
  NodeTokens tokens(parsed);
  tokens.next();
  tokens.next();
  tokens.next();
  CHECK(tokens.skip_value());
  CHECK(tokens.token() == NodeTokens::Token::EndObject);
  tokens.next();
  CHECK(tokens.text() == "c");
}

TEST_CASE("aliases are walked as often as they stand there") {
  const Document parsed = document("[&x [1], *x]");
  NodeTokens tokens(parsed);
  CHECK(all_tokens(tokens) == "[[n<1>1=1][n<1>1=1]]");
}

}  // namespace
}  // namespace shardplan
