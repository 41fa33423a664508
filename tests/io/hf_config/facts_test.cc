// SPDX-License-Identifier: Apache-2.0

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/safetensors.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::sample_config;
using testing::without;

Facts facts_of(const Json& config) {
  Diagnostics diags;
  const auto document = parse_document(
      std::make_shared<const SourceFile>("config.json", config.dump()), diags);
  REQUIRE(document);
  return config_facts(document->root());
}

using Size = std::optional<int64_t>;

struct FactsRow {
  Json config;
  Size heads, kv_heads, head_dim, experts, layers;
};

void check(const FactsRow& row) {
  CAPTURE(row.config.dump());
  const Facts facts = facts_of(row.config);
  CHECK(facts.heads == row.heads);
  CHECK(facts.kv_heads == row.kv_heads);
  CHECK(facts.head_dim == row.head_dim);
  CHECK(facts.experts == row.experts);
  CHECK(facts.layers == row.layers);
  CHECK(facts.from == FactsFrom::Config);
}

TEST_CASE("facts of real configs") {
  const FactsRow rows[] = {
      {sample_config("llama-3.1-70b"), 64, 8, 128, {}, 80},
      {sample_config("tinyllama-1.1b"), 32, 4, 64, {}, 22},
      {sample_config("mixtral-8x7b"), 32, 8, 128, 8, 32},
      {sample_config("qwen2-7b"), 28, 4, 128, {}, 28},
      {sample_config("qwen3-30b-a3b"), 32, 4, 128, 128, 48},
      {sample_config("gemma-2-9b"), 16, 8, 256, {}, 42},
      {sample_config("gpt2"), 12, 12, 64, {}, 12},
      {sample_config("gpt-oss-20b"), 64, 8, 64, 32, 24},
      // text_config leaves out the heads that its class has.
      {sample_config("gemma-3-4b"), 8, 4, 256, {}, 34},
      // Latent attention: heads of q, of k with v and of the output differ.
      {sample_config("deepseek-v3"), 128, 128, {}, 256, 61},
  };
  for (const FactsRow& row : rows) check(row);
}

TEST_CASE("latent attention caches the latent and the rotated positions") {
  const Facts facts = facts_of(sample_config("deepseek-v3"));
  CHECK(facts.kv_latent == 512 + 64);
  CHECK(facts.value_dim == 128);
  CHECK(facts.windows.empty());
  Json huge = sample_config("deepseek-v3");
  huge["kv_lora_rank"] = INT64_MAX;
  CHECK_FALSE(facts_of(huge).kv_latent);
  CHECK_FALSE(facts_of(sample_config("llama-3.1-8b")).kv_latent);
}

TEST_CASE("vocabulary, groups of experts and quantisation blocks") {
  const Facts deepseek = facts_of(sample_config("deepseek-v3"));
  CHECK(deepseek.vocab == 129280);
  CHECK(deepseek.expert_groups == 8);
  CHECK(deepseek.quant_rows == 128);
  CHECK(deepseek.quant_columns == 128);
  const Facts gpt_oss = facts_of(sample_config("gpt-oss-20b"));
  CHECK(gpt_oss.vocab == 201088);
  CHECK(gpt_oss.quant_rows == 1);
  CHECK(gpt_oss.quant_columns == 32);
  CHECK(!gpt_oss.expert_groups);
  // text_config has the vocabulary, the whole config the quantisation.
  Json gemma = sample_config("gemma-3-4b");
  gemma["text_config"]["vocab_size"] = 1000;
  gemma["quantization_config"] = {{"weight_block_size", {64, 32}}};
  CHECK(facts_of(gemma).vocab == 1000);
  CHECK(facts_of(gemma).quant_rows == 64);
  CHECK(facts_of(gemma).quant_columns == 32);
  CHECK(!facts_of(sample_config("llama-3.1-8b")).quant_rows);
  for (const Json& bad : {Json{128}, Json{128, 0}, Json{"a", 128}, Json(128)}) {
    CAPTURE(bad.dump());
    gemma["quantization_config"] = {{"weight_block_size", bad}};
    CHECK(!facts_of(gemma).quant_rows);
    CHECK(!facts_of(gemma).quant_columns);
  }
}

TEST_CASE("absent and null sizes mean what the family's class takes") {
  const Json llama = sample_config("llama-3.1-8b");
  const Json qwen3 = sample_config("qwen3-8b");
  const Json gemma = sample_config("gemma-2-2b");
  Json null_head_dim = llama;
  null_head_dim["head_dim"] = nullptr;
  Json null_qwen3 = qwen3;
  null_qwen3["head_dim"] = nullptr;
  Json null_kv = sample_config("mistral-7b");
  null_kv["num_key_value_heads"] = nullptr;
  const FactsRow rows[] = {
      {without(llama, "num_key_value_heads"), 32, 32, 128, {}, 32},
      {null_head_dim, 32, 8, 128, {}, 32},
      {without(qwen3, "head_dim"), 32, 8, 128, {}, 36},
      {without(qwen3, "num_key_value_heads"), 32, 32, 128, {}, 36},
      {null_qwen3, 32, 8, {}, {}, 36},
      {without(gemma, "num_key_value_heads"), 8, 4, 256, {}, 26},
      {without(gemma, "head_dim"), 8, 4, 256, {}, 26},
      {without(sample_config("mistral-7b"), "num_key_value_heads"),
       32,
       8,
       128,
       {},
       32},
      {null_kv, 32, 32, 128, {}, 32},
  };
  for (const FactsRow& row : rows) check(row);
}

TEST_CASE("facts of families that we cannot synthesise, by any spelling") {
  const FactsRow rows[] = {
      {{{"n_heads", 32}, {"d_model", 4096}, {"n_layers", 30}},
       32,
       32,
       128,
       {},
       30},
      {{{"num_heads", 8}, {"num_kv_heads", 2}, {"num_layers", 3}},
       8,
       2,
       {},
       {},
       3},
      {{{"model_type", "falcon"},
        {"multi_query", true},
        {"num_attention_heads", 71},
        {"hidden_size", 4544}},
       71,
       1,
       64,
       {},
       32},
      {{{"num_attention_heads", 6}, {"hidden_size", 32}}, 6, 6, {}, {}, {}},
      {{{"n_routed_experts", 64}}, {}, {}, {}, 64, {}},
  };
  for (const FactsRow& row : rows) check(row);
}

TEST_CASE("a config without facts, or with nonsense in them, states none") {
  const Json configs[] = {
      Json::object(),
      {{"num_attention_heads", "many"}},
      {{"num_attention_heads", 0}, {"num_hidden_layers", -3}},
      {{"text_config", {1, 2}}},
      Json::array(),
      "text",
  };
  for (const Json& config : configs) {
    CAPTURE(config.dump());
    const Facts facts = facts_of(config);
    CHECK(facts.from == FactsFrom::None);
    CHECK_FALSE(facts.heads);
    CHECK_FALSE(facts.layers);
  }
}

TEST_CASE("the config of a model is itself or stands beside the weights") {
  testing::MemoryHost host;
  const auto hidden = [&](const std::string& path) {
    Diagnostics diags;
    const auto manifest = load_manifest(path, host, diags);
    if (!manifest) return testing::messages(diags);
    if (manifest->config_unread) return testing::problems(diags);
    if (manifest->config == nullptr) return std::string("none");
    return std::to_string(
        manifest->config->root().find("hidden_size")->integer().value_or(-1));
  };
  host.files["m/config.json"] =
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 8,
"num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 10})";
  host.files["m/model.safetensors"] = testing::safetensors({{"a", "U8", {2}}});
  host.files["m/model.safetensors.index.json"] =
      R"({"weight_map":{"a":"model.safetensors"}})";
  host.files["m/list.json"] =
      R"({"parameters": {"a": {"shape": [2], "dtype": "f32"}}})";
  host.files["alone.safetensors"] = testing::safetensors({{"a", "U8", {2}}});
  CHECK(hidden("m") == "64");
  CHECK(hidden("m/config.json") == "64");
  CHECK(hidden("m/model.safetensors") == "64");
  CHECK(hidden("m/model.safetensors.index.json") == "64");
  CHECK(hidden("m/list.json") == "none");  // not what the config is about
  CHECK(hidden("alone.safetensors") == "none");
  CHECK(hidden("@mlp") == "none");
  host.files["m/config.json"] = "[]";
  CHECK(
      hidden("m").starts_with("SP002 warning m/config.json:1:1 the config next "
                              "to the weights is ignored"));
}

}  // namespace

}  // namespace shardplan
