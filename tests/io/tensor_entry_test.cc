// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_entry.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/io/document_text.h"

namespace shardplan {
namespace {

// An object's attributes as they are read, and what is said about them.
struct Result {
  TensorEntry entry;
  Shape shape;
  std::string unread;  // keys whose values are of another kind
  std::string problems;
};

Result read(const std::string& text) {
  Diagnostics diags;
  const SourceFile source("t", text);
  JsonScanner scanner(source);
  TokenSource tokens(scanner);
  ErrorLimit errors(diags, "the entry");
  AttributeReader reader(tokens, errors);
  Result result;
  tokens.next();
  while (tokens.next() == JsonScanner::Token::Key) {
    const Attribute attribute = attribute_of(tokens.text());
    const Span key = tokens.span();
    tokens.next();
    if (reader.read(attribute, key, result.entry)) continue;
    result.unread += key.text();
    tokens.skip_value();
  }
  result.shape = reader.shape();
  reader.axes_fit(result.entry, "w");
  result.problems = testing::text_of(diags);
  return result;
}

TEST_CASE("an entry collects its attributes in any order") {
  const Result result =
      read(R"({"buffer": true, "axes": ["a", null], "dtype": "BF16",
               "name": "w", "shape": [2, 3]})");
  CHECK(result.problems.empty());
  CHECK(result.shape == Shape{2, 3});
  CHECK(result.entry.dtype == DType::BF16);
  CHECK(result.entry.buffer);
  CHECK(result.entry.name == "w");
  CHECK(result.entry.axes == AxisLabels{"a", std::nullopt});
  CHECK(result.entry.has(Attribute::Sizes));
  CHECK_FALSE(result.entry.broken);
}

TEST_CASE("values of another kind are left to be read as something else") {
  const Result result =
      read(R"({"buffer": 1, "axes": {}, "dtype": null, "name": [],
               "shape": "x", "other": [1]})");
  CHECK(result.unread == R"("buffer""axes""dtype""name""shape""other")");
  CHECK_FALSE(result.entry.has_any());
}

TEST_CASE("an absent list of axes is as good as none") {
  const Result result = read(R"({"axes": null, "shape": [1]})");
  CHECK_FALSE(result.entry.has(Attribute::Axes));
  CHECK(result.problems.empty());
}

TEST_CASE("wrong values break an entry, each with its place") {
  const Result result =
      read(R"({"shape": [1, -1, 1e3], "dtype": "f33", "axes": ["a", 2]})");
  CHECK(result.entry.broken);
  CHECK(result.problems ==
        "SP002 1:15 a dimension is negative\n"
        "SP002 1:19 a dimension is not a whole number\n"
        "SP005 1:34 `f33` is not a dtype\n"
        "SP002 1:55 an entry of `axes` must be a name or null, not a number\n");
}

TEST_CASE("a misspelt dtype comes with the nearest one") {
  Diagnostics diags;
  const SourceFile source("t", "\"bfloat61\"");
  JsonScanner scanner(source);
  TokenSource tokens(scanner);
  ErrorLimit errors(diags, "the entry");
  AttributeReader reader(tokens, errors);
  TensorEntry entry;
  tokens.next();
  CHECK(reader.read(Attribute::Type, tokens.span(), entry));
  REQUIRE(diags.all().size() == 1);
  CHECK(diags.all()[0].help ==
        std::vector<std::string>{"write `bf16` if that is what was meant"});
}

}  // namespace
}  // namespace shardplan
