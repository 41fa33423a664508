// SPDX-License-Identifier: Apache-2.0
#include "io/yaml_text.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "io/document.h"

namespace shardplan {
namespace {

TEST_CASE("words that some YAML takes for something else are quoted") {
  for (const char* word : {"tp", "fsdp_2", "_x", "Embed", "nothing", "nan"}) {
    CHECK(yaml_word(word) == word);
  }
  for (const char* word : {"no", "Yes", "n", "ON", "true", "null", "", "2tp",
                           "a-b", "a.b", "a:b", "~", "*x", "a b", "ü"}) {
    CAPTURE(word);
    CHECK(yaml_word(word) == "\"" + std::string(word) + "\"");
  }
}

TEST_CASE("quotes, backslashes and what does not print are escaped") {
  CHECK(yaml_string("a\\d\"") == "\"a\\\\d\\\"\"");
  CHECK(yaml_string("\n\x01") == "\"\\x0a\\x01\"");
  CHECK(yaml_string("\u2028\ufeff") == "\"\\u2028\\ufeff\"");
  CHECK(yaml_string("größe") == "\"größe\"");
}

TEST_CASE("what is written is read as it was, as a string") {
  CHECK(rc::check("yaml_string", [] {
    std::string text;
    const auto count = *rc::gen::inRange<size_t>(0, 10);
    for (size_t i = 0; i < count; ++i) {
      text += *rc::gen::element<std::string>(
          "a", "\\", "\"", "'", "\n", "\r", "\t", " ", "\x7f", "ü", "\u0085",
          "\u2028", "\U0001F600", ":", "#", "- ", "{", "no", "1");
    }
    const bool word = *rc::gen::arbitrary<bool>();
    const auto source = std::make_shared<SourceFile>(
        "y", "[" + (word ? yaml_word(text) : yaml_string(text)) + "]\n");
    Diagnostics diags;
    const auto document = parse_document(source, diags);
    RC_ASSERT(document.has_value());
    const Node item = document->root().item(0);
    RC_ASSERT(item.is_string());
    RC_ASSERT(item.text() == text);
  }));
}

}  // namespace
}  // namespace shardplan
