// SPDX-License-Identifier: Apache-2.0
#include "io/formats/hf_families/decoder.h"

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::Json;

const Json kSizes = {{"vocab_size", 96},
                     {"hidden_size", 48},
                     {"intermediate_size", 64},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 6}};

struct Read {
  Decoder decoder;
  std::string problem;
  size_t problems = 0;
};

Read read(const HfFamily& family, const Json& changes) {
  Diagnostics diags;
  const auto document = parse_document(
      std::make_shared<const SourceFile>(
          "config.json", testing::changed(kSizes, changes).dump()),
      diags);
  REQUIRE(document);
  ConfigReader config(document->root(), "", diags);
  Read result{read_decoder(family, config), "", 0};
  if (!config.ok()) result.problem = diags.all()[0].message;
  result.problems = diags.all().size();
  return result;
}

TEST_CASE("KV heads and head_dim: given, absent and null") {
  const HfFamily derived{};
  const HfFamily given{.kv_heads = {3, kDerived}, .head_dim = {10, kRefused}};
  struct Row {
    const HfFamily& family;
    Json changes;
    int64_t kv_heads;
    int64_t head_dim;
  };
  const Row rows[] = {
      {derived, Json::object(), 6, 8},
      {derived, {{"num_key_value_heads", 2}, {"head_dim", 5}}, 2, 5},
      {derived,
       {{"num_key_value_heads", nullptr}, {"head_dim", nullptr}},
       6,
       8},
      {given, Json::object(), 3, 10},
      {given, {{"num_key_value_heads", nullptr}}, 6, 10},
      {given, {{"num_key_value_heads", 1}, {"head_dim", 2}}, 1, 2},
  };
  for (const Row& row : rows) {
    CAPTURE(row.changes.dump());
    const Read result = read(row.family, row.changes);
    CHECK(result.problem.empty());
    CHECK(result.decoder.kv_heads == row.kv_heads);
    CHECK(result.decoder.head_dim == row.head_dim);
    CHECK(result.decoder.query_size() == 6 * row.head_dim);
    CHECK(result.decoder.kv_size() == row.kv_heads * row.head_dim);
  }
}

TEST_CASE("sizes that contradict one another are refused") {
  const HfFamily derived{};
  const HfFamily given{.kv_heads = {4, kRefused}, .head_dim = {10, kRefused}};
  const std::string multiple =
      "`num_attention_heads` must be a multiple of `num_key_value_heads`";
  CHECK(read(derived, {{"num_key_value_heads", 4}}).problem == multiple);
  CHECK(read(given, Json::object()).problem == multiple);
  CHECK(read(derived, {{"hidden_size", 50}}).problem ==
        "without `head_dim`, `hidden_size` must be a multiple of "
        "`num_attention_heads`");
  CHECK(read(derived, {{"hidden_size", 50}, {"head_dim", 7}}).problem == "");
  CHECK(read(given, {{"num_key_value_heads", 2}, {"head_dim", nullptr}})
            .problem == "`head_dim` is null");
  CHECK(read(given, {{"num_key_value_heads", nullptr}}).problem ==
        "`num_key_value_heads` is null");
}

TEST_CASE("a size that is wrong does not make others look wrong") {
  const HfFamily derived{};
  const Read result = read(derived, {{"hidden_size", -4}});
  CHECK(result.problem == "`hidden_size` is -4");
  CHECK(result.problems == 1);
}

TEST_CASE("the head is tied as the config says, else as the family does") {
  const HfFamily untied{};
  const HfFamily tied{.tied = true};
  CHECK_FALSE(read(untied, Json::object()).decoder.tied);
  CHECK(read(tied, Json::object()).decoder.tied);
  CHECK(read(untied, {{"tie_word_embeddings", true}}).decoder.tied);
  CHECK_FALSE(read(tied, {{"tie_word_embeddings", false}}).decoder.tied);
}

TEST_CASE("layers are named below their root") {
  CHECK(layer_name(12) == "model.layers.12.");
  CHECK(layer_name(0, "encoder.") == "encoder.layers.0.");
}

}  // namespace
}  // namespace shardplan
