// SPDX-License-Identifier: Apache-2.0
#include "model/config_reader.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace shardplan {
namespace {

struct Config {
  explicit Config(const char* text)
      : document(*parse_document(
            std::make_shared<const SourceFile>("config.json", text), diags)),
        reader(document.root(), "", diags) {}

  Diagnostics diags;
  Document document;
  ConfigReader reader;
};

TEST_CASE("sizes are read, or taken from the fallback of their kind") {
  Config config(R"({"a": 7, "n": null, "most": 1073741824})");
  CHECK(config.reader.size("a") == 7);
  CHECK(config.reader.size("a", {.absent = 1}) == 7);
  CHECK(config.reader.size("most") == kMaxSize);
  CHECK(config.reader.size("b", {.absent = 3, .null = 4}) == 3);
  CHECK(config.reader.size("n", {.absent = 3, .null = 4}) == 4);
  CHECK(config.reader.count("b", 0, {.absent = 0}) == 0);
  CHECK(config.reader.ok());
}

TEST_CASE("switches and lists have a value where they are absent") {
  Config config(R"({"yes": true, "list": [3, 1], "null": null})");
  CHECK(config.reader.flag("yes", false));
  CHECK(config.reader.flag("no", true));
  CHECK(config.reader.integers("list") == std::vector<int64_t>{3, 1});
  CHECK(config.reader.integers("null").empty());
  CHECK(config.reader.integers("absent").empty());
  CHECK_FALSE(config.reader.find("null"));
  CHECK(config.reader.ok());
}

TEST_CASE("positive numbers and texts") {
  Config config(R"({"x": 1e-5, "n": 2, "null": null, "t": "silu"})");
  CHECK(config.reader.positive("x", 1) == 1e-5);
  CHECK(config.reader.positive("n", 1) == 2);
  CHECK(config.reader.positive("null", 3) == 3);
  CHECK(config.reader.positive("absent", 4) == 4);
  CHECK(config.reader.text("t") == "silu");
  CHECK(config.reader.text("null").empty());
  CHECK(config.reader.text("absent").empty());
  CHECK(config.reader.ok());
}

TEST_CASE("what is wrong is reported once, at its place") {
  struct Row {
    const char* text;
    std::function<void(ConfigReader&)> read;
    const char* problem;
    const char* place;
  };
  const auto size = [](ConfigReader& config) { config.size("a"); };
  const Row rows[] = {
      {R"({"b": 1})", size, "SP009 `a` is missing", "{"},
      {R"({"a": null})", size, "SP009 `a` is null", "null"},
      {R"({"a": 0})", size, "SP009 `a` is 0", "0"},
      {R"({"a": -2})", size, "SP009 `a` is -2", "-2"},
      {R"({"a": 1073741825})", size, "SP009 `a` is 1073741825", "1073741825"},
      {R"({"a": 99999999999999999999})", size,
       "SP009 `a` is 99999999999999999999", "99999999999999999999"},
      {R"({"a": 1.5})", size, "SP002 `a` must be an integer, not a number",
       "1.5"},
      {R"({"a": {}})", size, "SP002 `a` must be an integer, not a map", "{}"},
      {R"({"a": 100001})", [](ConfigReader& c) { c.count("a", 1); },
       "SP009 `a` is 100001", "100001"},
      {R"({"a": 1})", [](ConfigReader& c) { c.flag("a", false); },
       "SP002 `a` must be true or false, not an integer", "1"},
      {R"({"a": 1})", [](ConfigReader& c) { c.integers("a"); },
       "SP002 `a` must be a list, not an integer", "1"},
      {R"({"a": [1, "x"]})", [](ConfigReader& c) { c.integers("a"); },
       "SP002 `a` must be a list of integers, not a string", "\"x\""},
      {R"({"a": 0.0})", [](ConfigReader& c) { c.positive("a", 1); },
       "SP009 `a` is 0.0", "0.0"},
      {R"({"a": "1"})", [](ConfigReader& c) { c.positive("a", 1); },
       "SP002 `a` must be a number, not a string", "\"1\""},
      {R"({"a": true})", [](ConfigReader& c) { c.text("a"); },
       "SP002 `a` must be a string, not true or false", "true"},
      {R"({"b": 1})", [](ConfigReader& c) { (void)c.section("a"); },
       "SP009 `a` is missing", "{"},
      {R"({"a": [1]})", [](ConfigReader& c) { (void)c.section("a"); },
       "SP002 `a` must be a map, not a list", "[1]"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    Config config(row.text);
    row.read(config.reader);
    CHECK_FALSE(config.reader.ok());
    REQUIRE(config.diags.all().size() == 1);
    const Diagnostic& found = config.diags.all()[0];
    CHECK(code_id(found.code) + " " + found.message == row.problem);
    CHECK(found.labels[0].where.text() == row.place);
  }
}

TEST_CASE("a section names its keys with its own and fails its parent too") {
  Config config(R"({"text_config": {"a": 5}})");
  auto section = config.reader.section("text_config");
  REQUIRE(section);
  CHECK(section->size("a") == 5);
  CHECK(config.reader.ok());
  section->size("b");
  CHECK_FALSE(config.reader.ok());
  CHECK(config.diags.all()[0].message == "`text_config.b` is missing");
}

TEST_CASE("errors from before do not count") {
  Config config(R"({"a": 0})");
  config.reader.size("a");
  const ConfigReader later(config.document.root(), "", config.diags);
  CHECK(later.ok());
  CHECK_FALSE(config.reader.ok());
}

}  // namespace

}  // namespace shardplan
