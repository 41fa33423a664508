// SPDX-License-Identifier: Apache-2.0
// What the reader gives is tested in formats/native_test.cc; here that JSON and
// YAML tokens give the same, and what tells a wrapper.
#include "io/native_reader.h"

#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "tests/io/document_text.h"

namespace shardplan {
namespace {

std::string result_text(const std::optional<Manifest>& manifest,
                        const Diagnostics& diags) {
  std::string all = manifest ? manifest->model_name + ":" : "refused:";
  for (size_t i = 0; manifest && i < manifest->size(); ++i) {
    all += " " + std::string(manifest->name(i)) + "=" +
           type_text(manifest->type(i));
  }
  return all + "\n" + testing::text_of(diags);
}

std::string from_json(const std::string& text) {
  Diagnostics diags;
  const SourceFile source("t", text);
  JsonScanner ahead(source);
  JsonScanner scanner(source);
  const bool wrapped = has_wrapper(TokenSource(ahead));
  const auto manifest = read_native(TokenSource(scanner), wrapped, diags);
  return result_text(manifest, diags);
}

std::string from_document(const std::string& text) {
  Diagnostics diags;
  const auto document =
      parse_document(std::make_shared<SourceFile>("t", text), diags);
  REQUIRE(document);
  NodeTokens ahead(*document);
  NodeTokens nodes(*document);
  const bool wrapped = has_wrapper(TokenSource(ahead));
  const auto manifest = read_native(TokenSource(nodes), wrapped, diags);
  return result_text(manifest, diags);
}

TEST_CASE("a text and its document are read alike") {
  const std::string kTexts[] = {
      R"({"name": "n", "parameters": {"b": {"shape": [2], "dtype": "f32"},
          "a": {"c": [{"shape": [], "dtype": "i4"}]}}})",
      R"([{"name": "b", "shape": [2], "dtype": "f32", "axes": ["x"]}])",
      R"({"b": {"shape": [2.5], "dtype": "f31", "z": 1}})",
      R"({"b": {"shape": [2], "dtype": "f32"}, "c": true, "d": {"e": "x"}})",
      R"({"parameters": {}, "facts": {"heads": -1, "experts": 2}, "x": []})",
      R"({"parameters": [1, {"name": "a"}, {"dtype": "u8"}, {}]})",
  };
  for (const std::string& text : kTexts) {
    CAPTURE(text);
    CHECK(from_json(text) == from_document(text));
  }
}

TEST_CASE("the key `parameters` makes a wrapper unless it is a tensor") {
  const std::pair<std::string, bool> kCases[] = {
      {R"({"parameters": {}})", true},
      {R"({"parameters": []})", true},
      {R"({"x": {"parameters": 1}, "parameters": {"a": 1}})", true},
      {R"({"parameters": {"shape": {"shape": [1], "dtype": "u8"}}})", true},
      {R"({"parameters": {"dtype": {"shape": [1], "dtype": "u8"}}})", true},
      {R"({"parameters": {"shape": [1], "dtype": "u8"}})", false},
      {R"({"parameters": {"dtype": "u8", "shape": [1]}})", false},
      {R"({"parameters": 3})", false},
      {R"({"x": {"parameters": {}}})", false},
      {R"([{"parameters": {}}])", false},
      {R"({"x": )", false},
      {R"({})", false},
  };
  for (const auto& row : kCases) {
    const auto& text = row.first;
    const auto& expected = row.second;
    CAPTURE(text);
    const SourceFile source("t", text);
    JsonScanner scanner(source);
    CHECK(has_wrapper(TokenSource(scanner)) == expected);
  }
}

TEST_CASE("what is odd below a wrong member is not told beside it") {
  CHECK(from_json(R"({"w": {"shape": [1], "dtype": "u8", "x": {"y": [1]}}})") ==
        "refused:\nSP004 1:37 key `x` means nothing here\n");
}

TEST_CASE("tokens that end in an error leave no manifest") {
  CHECK(from_json(R"({"w": {"shape": [1], "dtype": "u8"}, )") == "refused:\n");
}

}  // namespace
}  // namespace shardplan
