// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/hf_config.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::has_tensor;
using testing::Json;
using testing::sample_config;
using testing::small_config;
using testing::synthesize;
using testing::type_of;
using testing::without;

TEST_CASE("biases are those of the family, whatever the config says") {
  struct Row {
    const char* name;
    Json changes;
    bool query, output, mlp;
  };
  const Json all = {{"attention_bias", true}, {"mlp_bias", true}};
  const Row rows[] = {
      {"llama", Json::object(), false, false, false},
      {"llama", all, true, true, true},
      {"llama", {{"attention_bias", true}}, true, true, false},
      {"llama", {{"mlp_bias", true}}, false, false, true},
      {"mistral", all, false, false, false},
      {"qwen2", Json::object(), true, false, false},
      {"qwen2", {{"attention_bias", false}}, true, false, false},
      {"qwen3", Json::object(), false, false, false},
      {"qwen3", all, true, true, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.changes.dump());
    const auto result =
        synthesize(changed(small_config(row.name), row.changes));
    const Manifest& manifest = result->good();
    const std::string at = "model.layers.1.";
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      CHECK(has_tensor(manifest, at + "self_attn." + name + ".bias") ==
            row.query);
    }
    CHECK(has_tensor(manifest, at + "self_attn.o_proj.bias") == row.output);
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      CHECK(has_tensor(manifest, at + "mlp." + name + ".bias") == row.mlp);
    }
  }
}

TEST_CASE("only qwen3 norms the heads of q and k") {
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3"}) {
    CAPTURE(name);
    const auto result = synthesize(small_config(name));
    CHECK(
        has_tensor(result->good(), "model.layers.0.self_attn.q_norm.weight") ==
        (std::string(name) == "qwen3"));
  }
}

TEST_CASE("a tied head is not stored") {
  const Json config = sample_config("llama-3.2-1b");
  CHECK_FALSE(has_tensor(synthesize(config)->good(), "lm_head.weight"));
  const auto untied =
      synthesize(changed(config, {{"tie_word_embeddings", false}}));
  CHECK(type_of(untied->good(), "lm_head.weight") ==
        TensorType{DType::BF16, {128'256, 2048}});
  const auto absent = synthesize(without(config, "tie_word_embeddings"));
  CHECK(has_tensor(absent->good(), "lm_head.weight"));
}

TEST_CASE("sizes whose product exceeds 63 bits are refused") {
  const auto result = synthesize(
      changed(small_config("llama"), {{"vocab_size", 1 << 30},
                                      {"hidden_size", 1 << 30},
                                      {"intermediate_size", 1 << 30},
                                      {"num_hidden_layers", 100'000}}));
  CHECK(result->problem() == "SP009 the model's size exceeds 63 bits");
  CHECK(result->diags.all().size() == 1);
}

}  // namespace
}  // namespace shardplan
