// SPDX-License-Identifier: Apache-2.0
#include "io/json_reader.h"

#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::messages;

// Runs `read` on the first token of `text`; the answer, or what was reported.
std::string outcome(const std::string& text,
                    const std::function<std::string(JsonReader&)>& read) {
  Diagnostics diags;
  const SourceFile source("a.json", text);
  JsonReader json(source, diags);
  if (!json.advance()) return messages(diags);
  const std::string answer = read(json);
  return diags.all().empty() ? answer : messages(diags);
}

std::string size_outcome(const std::string& text) {
  return outcome(text, [](JsonReader& json) {
    int64_t value = -1;
    const bool good = json.size("`n`", value);
    CHECK(good == (value >= 0));
    return std::to_string(value);
  });
}

TEST_CASE("sizes are integers of 63 bits that are not negative") {
  struct Row {
    std::string text, expected;
  };
  for (const Row& row : std::vector<Row>{
           {"0", "0"},
           {"9223372036854775807", "9223372036854775807"},
           {"9223372036854775808",
            "SP002 a.json:1:1 `n` must be an integer below 2^63, not "
            "`9223372036854775808`"},
           {"1.0",
            "SP002 a.json:1:1 `n` must be an integer below 2^63, not `1.0`"},
           {"[]", "SP002 a.json:1:1 `n` must be an integer, not a list"},
           {"null", "SP002 a.json:1:1 `n` must be an integer, not nothing"}}) {
    CAPTURE(row.text);
    CHECK(size_outcome(row.text) == row.expected);
  }
  Diagnostics diags;
  const SourceFile source("a.json", "-3");
  JsonReader json(source, diags);
  int64_t value = 0;
  CHECK(json.advance());
  CHECK_FALSE(json.size("`n`", value));
  CHECK(messages(diags) ==
        "SP002 a.json:1:1 `n` must not be negative, but is -3");
}

TEST_CASE("a number too long to show is cut") {
  CHECK(size_outcome(std::string(1000, '9')).size() < 120);
}

TEST_CASE("maps give keys, places and values in order") {
  const auto read = [](JsonReader& json) {
    std::string seen;
    const bool good = json.map("`m`", [&](const std::string& key, Span where) {
      seen += key + "@" + std::to_string(where.begin) + " ";
      return json.skip();
    });
    return good ? seen : "failed";
  };
  CHECK(outcome(R"({"a": 1, "b\n": {"c": []}, "a": "x"})", read) ==
        "a@1 b\n@9 a@27 ");
  CHECK(outcome("{}", read).empty());
  CHECK(outcome("[1]", read) ==
        "SP002 a.json:1:1 `m` must be a map, not a list");
  CHECK(outcome(R"({"a": 1)", read).starts_with("SP002 a.json:1:8 "));
}

TEST_CASE("lists give their items and stop when told") {
  const auto read = [](JsonReader& json) {
    int64_t sum = 0;
    const bool good = json.list("`l`", [&] {
      int64_t value = 0;
      if (!json.integer("an item", value)) return false;
      sum += value;
      return value != 7;
    });
    return good ? std::to_string(sum) : "stopped";
  };
  CHECK(outcome("[1, 2, -4]", read) == "-1");
  CHECK(outcome("[]", read) == "0");
  CHECK(outcome("[1, 7, 2]", read) == "stopped");
  CHECK(outcome("[1, \"2\"]", read) ==
        "SP002 a.json:1:5 an item must be an integer, not text");
}

TEST_CASE("texts and booleans are what they say") {
  const auto text = [](JsonReader& json) {
    std::string value;
    return json.string("`s`", value) ? value : "failed";
  };
  CHECK(outcome(R"("aéb")", text) == "a\u00e9b");
  CHECK(outcome("true", text) ==
        "SP002 a.json:1:1 `s` must be text, not true or false");
  const auto boolean = [](JsonReader& json) {
    bool value = false;
    if (!json.boolean("`b`", value)) return std::string("failed");
    return std::string(value ? "yes" : "no");
  };
  CHECK(outcome("true", boolean) == "yes");
  CHECK(outcome("false", boolean) == "no");
  CHECK(outcome("0", boolean) ==
        "SP002 a.json:1:1 `b` must be true or false, not a number");
}

TEST_CASE("a skipped value has the place of all of it") {
  const auto read = [](JsonReader& json) {
    Span where;
    CHECK(json.skip(where));
    return std::string(where.text());
  };
  CHECK(outcome(R"( {"a": [1, {}]} )", read) == R"({"a": [1, {}]})");
  CHECK(outcome("12", read) == "12");
}

TEST_CASE("what follows the value is refused") {
  CHECK(outcome("1 2", [](JsonReader& json) {
          return json.skip() && json.finish() ? "fine" : "";
        }).starts_with("SP002 a.json:1:3 "));
}

}  // namespace
}  // namespace shardplan
