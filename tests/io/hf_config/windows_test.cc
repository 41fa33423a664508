// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

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

// Not "all see all", which is what an empty table means.
TEST_CASE(
    "windows that a config gives in words that nobody knows are unknown") {
  const Json config = {{"model_type", "mistral"},
                       {"num_hidden_layers", 2},
                       {"num_attention_heads", 4},
                       {"sliding_window", "wide"}};
  CHECK(windows_of(config) == Windows{kUnknownWindow, kUnknownWindow});
}

// Its architecture says which tensors there are, not what layers see.
TEST_CASE("windows of an architecture that says nothing of them are listed") {
  CHECK(windows_of(
            {{"model_type", "olmo"},
             {"num_hidden_layers", 2},
             {"sliding_window", 7},
             {"layer_types", {"sliding_attention", "linear_attention"}}}) ==
        Windows{7, kUnknownWindow});
}

TEST_CASE("a config with more layers than are read has no windows") {
  Json config = testing::sample_config("mistral-7b");
  config["num_hidden_layers"] = int64_t{1} << 60;
  CHECK(windows_of(config).empty());
}

}  // namespace

}  // namespace shardplan
