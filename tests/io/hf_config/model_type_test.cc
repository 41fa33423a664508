// SPDX-License-Identifier: Apache-2.0
#include "io/hf_config/model_type.h"

#include <algorithm>
#include <functional>

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

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
       "SP002 `a` must be a list of integers, not text", "\"x\""},
      {R"({"a": 0.0})", [](ConfigReader& c) { c.positive("a", 1); },
       "SP009 `a` is 0.0", "0.0"},
      {R"({"a": "1"})", [](ConfigReader& c) { c.positive("a", 1); },
       "SP002 `a` must be a number, not text", "\"1\""},
      {R"({"a": true})", [](ConfigReader& c) { c.text("a"); },
       "SP002 `a` must be text, not true or false", "true"},
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

struct Fixture {
  Diagnostics diags;
  Document document = *parse_document(
      std::make_shared<const SourceFile>("config.json", "{}"), diags);
  ConfigReader config{document.root(), "", diags};
  Manifest manifest;
  TensorWriter writer{manifest, DType::BF16, config};
};

TEST_CASE("modules are spelled with their weights and biases") {
  Fixture test;
  test.writer.linear("a", 4, 2);
  test.writer.linear("b", 4, 2, true);
  test.writer.norm("c", 3);
  test.writer.layer_norm("d", 3);
  test.writer.embedding("e", 10, 2);
  test.writer.tensor("f", {5});
  test.writer.tensor("g", DType::U8, {6});
  test.writer.buffer("h", DType::F32, {7});
  std::string written;
  for (size_t i = 0; i < test.manifest.size(); ++i) {
    written += std::string(test.manifest.name(i)) + " " +
               type_text(test.manifest.type(i)) + "\n";
    CHECK_FALSE(test.manifest.where(i));
  }
  CHECK(written ==
        "a.weight bf16[4, 2]\n"
        "b.weight bf16[4, 2]\nb.bias bf16[4]\n"
        "c.weight bf16[3]\n"
        "d.weight bf16[3]\nd.bias bf16[3]\n"
        "e.weight bf16[10, 2]\n"
        "f bf16[5]\ng u8[6]\n");
  REQUIRE(test.manifest.buffers().size() == 1);
  CHECK(test.manifest.buffers()[0].name == "h");
  CHECK(test.manifest.buffers()[0].type == TensorType{DType::F32, {7}});
}

TEST_CASE("a model beyond the limit of tensors is refused before it is made") {
  Fixture fits;
  CHECK(fits.writer.begin(kMaxTensors / 10, 10));
  CHECK(fits.config.ok());
  Fixture over;
  CHECK_FALSE(over.writer.begin(kMaxTensors / 10 + 1, 10));
  REQUIRE(over.diags.all().size() == 1);
  CHECK(over.diags.all()[0].message == "the model would have too many tensors");
  CHECK(over.diags.all()[0].facts[1] == "the limit is 20,000,000");
  Fixture huge;
  CHECK_FALSE(huge.writer.begin(INT64_MAX, INT64_MAX));
}

TEST_CASE("nothing begins after a problem of the config") {
  Fixture test;
  test.config.size("absent");
  CHECK_FALSE(test.writer.begin(1, 1));
  CHECK(test.diags.all().size() == 1);
}

TEST_CASE("a size beyond 63 bits is reported once and ends the writing") {
  Fixture test;
  test.writer.tensor("small", {1});
  test.writer.tensor("vast", {int64_t{1} << 61, 4});
  test.writer.tensor("vast too", {int64_t{1} << 61, 4});
  test.writer.tensor("late", {1});
  CHECK(test.manifest.size() == 1);
  REQUIRE(test.diags.all().size() == 1);
  const Diagnostic& found = test.diags.all()[0];
  CHECK(code_id(found.code) == "SP009");
  CHECK(found.message == "the model's size exceeds 63 bits");
  CHECK(found.facts[0] == "at `vast`, bf16[2305843009213693952, 4]");
}

using testing::changed;
using testing::Json;
using Windows = std::vector<int64_t>;

Windows windows_of(const Json& config) {
  Diagnostics diags;
  const auto document = parse_document(
      std::make_shared<const SourceFile>("config.json", config.dump()), diags);
  REQUIRE(document);
  return config_facts(document->root()).windows;
}

// As the recording has them: none is 0 for every layer.
Windows written_out(Windows windows, size_t layers) {
  if (windows.empty()) windows.assign(layers, 0);
  return windows;
}

TEST_CASE("layers see what the configuration classes of transformers say") {
  const Json recorded =
      testing::read_json(testing::data_path("hf_windows.json"));
  REQUIRE(recorded.size() > 40);
  for (const Json& row : recorded) {
    CAPTURE(row.dump());
    const Json config = row.contains("case")
                            ? row.at("config")
                            : testing::sample_config(row.at("config"));
    const Windows expected = row.at("windows");
    CHECK(written_out(windows_of(config), expected.size()) == expected);
  }
}

const Json kOther = {{"model_type", "nobody-knows"}, {"num_hidden_layers", 4}};

TEST_CASE("of unknown families only what is listed per layer counts") {
  CHECK(windows_of(changed(kOther, {{"sliding_window", 7}})).empty());
  const Json listed =
      changed(kOther, {{"sliding_window", 7},
                       {"attention_chunk_size", 9},
                       {"layer_types",
                        {"sliding_attention", "full_attention",
                         "chunked_attention", "linear_attention"}}});
  CHECK(windows_of(listed) == Windows{7, 0, 9, kUnknownWindow});
  CHECK(windows_of(testing::without(listed, "sliding_window"))[0] ==
        kUnknownWindow);
  CHECK(windows_of(testing::without(listed, "attention_chunk_size"))[2] ==
        kUnknownWindow);
  // A list of another length stays as it is; its users say what is missing.
  CHECK(windows_of(changed(listed, {{"num_hidden_layers", 9}})).size() == 4);
}

TEST_CASE("layers that keep no keys and values of their own are unknown") {
  CHECK(windows_of(changed(kOther, {{"num_kv_shared_layers", 1}})) ==
        Windows{0, 0, 0, kUnknownWindow});
  CHECK(windows_of(changed(kOther, {{"num_kv_shared_layers", 9}})) ==
        Windows(4, kUnknownWindow));
  CHECK(windows_of(changed(kOther, {{"attn_layer_period", 2}})) ==
        Windows(4, kUnknownWindow));
}

TEST_CASE("a config with more layers than are read has no windows") {
  Json config = testing::sample_config("mistral-7b");
  config["num_hidden_layers"] = int64_t{1} << 60;
  CHECK(windows_of(config).empty());
}

}  // namespace

}  // namespace shardplan
