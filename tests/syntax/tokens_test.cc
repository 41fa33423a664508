// SPDX-License-Identifier: Apache-2.0

#include "syntax/tokens.h"

#include <cstdint>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "syntax/mlir.h"
#include "syntax/utf8.h"
#include "tests/support/property.h"

namespace shardplan {
namespace {

TEST_CASE("what cannot be shown is escaped by the shortest number") {
  CHECK(text_escape(U'a').empty());
  CHECK(text_escape(U'\u20ac').empty());
  CHECK(text_escape(U'"') == "\\\"");
  CHECK(text_escape(U'\\') == "\\\\");
  CHECK(text_escape(U'\n') == "\\x0a");
  CHECK(text_escape(U'\u202e') == "\\u202e");
  CHECK(text_escape(U'\U000e0001') == "\\U000e0001");
  // Beyond the basic plane the characters that nobody sees are escaped, which
  // Unicode says are for formatting.
  int escaped = 0;
  for (char32_t code = 0x10000; code < 0x110000; ++code) {
    const std::string escape = text_escape(code);
    if (escape.empty()) continue;
    ++escaped;
    if (escape.size() != 10) FAIL(static_cast<uint32_t>(code));
  }
  CHECK(escaped == 127);
}

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
  TokenSource tokens(parsed);
  const SourceFile source("t", text);
  JsonScanner scanner(source);
  CHECK(all_tokens(tokens) == all_tokens(scanner));
}

TEST_CASE("a scalar document is one token") {
  const Document parsed = document("hello");
  TokenSource tokens(parsed);
  CHECK(tokens.next() == TokenSource::Token::String);
  CHECK(tokens.next() == TokenSource::Token::End);
  CHECK(tokens.next() == TokenSource::Token::End);
}

TEST_CASE("skipping goes to the last token of a value") {
  const Document parsed = document("{a: {b: [1]}, c: 2}");
  TokenSource tokens(parsed);
  tokens.next();
  tokens.next();
  tokens.next();
  CHECK(tokens.skip_value());
  CHECK(tokens.token() == TokenSource::Token::EndObject);
  tokens.next();
  CHECK(tokens.text() == "c");
}

TEST_CASE("aliases are walked as often as they stand there") {
  const Document parsed = document("[&x [1], *x]");
  TokenSource tokens(parsed);
  CHECK(all_tokens(tokens) == "[[n<1>1=1][n<1>1=1]]");
}

TEST_CASE("words, numbers, strings and symbols are read, blanks passed over") {
  const SourceFile source(
      "m", "  func.func // why\n @main(%a: 12) \"a\\22\\n\\\\\" @\"b c\" ab");
  MlirCursor cursor(source);
  CHECK_FALSE(cursor.accept("func"));
  CHECK(cursor.accept("func.func"));
  CHECK(cursor.symbol() == "main");
  CHECK(cursor.accept("("));
  CHECK(cursor.accept("%"));
  CHECK(cursor.word() == "a");
  CHECK_FALSE(cursor.integer());
  CHECK(cursor.accept(":"));
  CHECK(cursor.here().text() == "12");
  CHECK(cursor.integer() == 12);
  CHECK(cursor.accept(")"));
  const uint64_t begin = cursor.at();
  CHECK(cursor.string() == "a\"\n\\");
  CHECK(cursor.span_from(begin).text() == "\"a\\22\\n\\\\\"");
  CHECK(cursor.symbol() == "b c");
  CHECK_FALSE(cursor.string());
  CHECK(cursor.word() == "ab");
  CHECK(cursor.done());
  CHECK(cursor.peek() == '\0');
}

TEST_CASE("values are passed over with their brackets and strings") {
  const SourceFile source("m", "#a<[{\"}\", ?}], (d0) -> (d0)>, b } c");
  MlirCursor cursor(source);
  CHECK(cursor.skip_to(",}"));
  CHECK(cursor.accept(","));
  CHECK(cursor.word() == "b");
  CHECK(cursor.skip_to("}"));
  CHECK(cursor.accept("}"));
  CHECK_FALSE(cursor.skip_to("}"));
}

TEST_CASE("a cursor ends on any text") {
  CHECK(holds("bounded", [] {
    const auto text = draw_text("\"\\()<>-a1 @\n/");
    const SourceFile source("m", text);
    MlirCursor cursor(source);
    for (size_t steps = 0; !cursor.done(); ++steps) {
      ENSURE(steps <= text.size());
      const uint64_t before = cursor.at();
      cursor.string();
      cursor.symbol();
      cursor.word();
      if (cursor.at() == before) cursor.skip_one();
      ENSURE(cursor.at() > before);
    }
    MlirCursor again(source);
    again.skip_to(",");
    ENSURE(again.at() <= text.size() + 1);
  }));
}

TEST_CASE("types of elements are found by the names that MLIR has for them") {
  int named = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string_view name = mlir_type_name(dtype);
    if (name.empty()) continue;
    ++named;
    CHECK(find_mlir_type(name) == dtype);
  }
  CHECK(named == 26);
  CHECK(mlir_type_name(DType::F8E4M3FN) == "f8E4M3FN");
  CHECK(mlir_type_name(DType::C64) == "complex<f32>");
  CHECK(mlir_type_name(DType::Q4_K).empty());
  CHECK_FALSE(find_mlir_type("f8e4m3fn"));
  CHECK_FALSE(find_mlir_type("f8E3M4"));
}

}  // namespace

}  // namespace shardplan
