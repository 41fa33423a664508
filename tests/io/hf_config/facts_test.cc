// SPDX-License-Identifier: Apache-2.0
#include "io/hf_config/facts.h"

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

ModelFacts facts_of(const Json& config) {
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
  const ModelFacts facts = facts_of(row.config);
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
  const ModelFacts facts = facts_of(sample_config("deepseek-v3"));
  CHECK(facts.kv_latent == 512 + 64);
  CHECK(facts.value_dim == 128);
  CHECK(facts.windows.empty());
  Json huge = sample_config("deepseek-v3");
  huge["kv_lora_rank"] = INT64_MAX;
  CHECK_FALSE(facts_of(huge).kv_latent);
  CHECK_FALSE(facts_of(sample_config("llama-3.1-8b")).kv_latent);
}

TEST_CASE("vocabulary, groups of experts and quantisation blocks") {
  const ModelFacts deepseek = facts_of(sample_config("deepseek-v3"));
  CHECK(deepseek.vocab == 129280);
  CHECK(deepseek.expert_groups == 8);
  CHECK(deepseek.quant_rows == 128);
  CHECK(deepseek.quant_columns == 128);
  const ModelFacts gpt_oss = facts_of(sample_config("gpt-oss-20b"));
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
    const ModelFacts facts = facts_of(config);
    CHECK(facts.from == FactsFrom::None);
    CHECK_FALSE(facts.heads);
    CHECK_FALSE(facts.layers);
  }
}

using testing::changed;
using testing::MemoryHost;
using testing::messages;
using testing::small_config;

std::optional<ModelConfig> read_text(const std::string& text,
                                     Diagnostics& diags) {
  const auto source = std::make_shared<const SourceFile>("config.json", text);
  diags.keep(source);
  const auto document = parse_document(source, diags);
  REQUIRE(document);
  return read_model_config(document->root(), diags);
}

ModelConfig good(const Json& config) {
  Diagnostics diags;
  const auto model = read_text(config.dump(), diags);
  CAPTURE(messages(diags));
  REQUIRE(model);
  return *model;
}

std::string refusal(const Json& config) {
  Diagnostics diags;
  CHECK_FALSE(read_text(config.dump(), diags));
  REQUIRE_FALSE(diags.all().empty());
  const Diagnostic& first = diags.all().front();
  return code_id(first.code) + " " + first.message;
}

TEST_CASE("a llama of the Hub") {
  const ModelConfig model = good(sample_config("llama-3.1-8b"));
  CHECK(model.model_type == "llama");
  CHECK(model.architecture == "LlamaForCausalLM");
  CHECK(model.hidden == 4096);
  CHECK(model.intermediate == 14336);
  CHECK(model.layers == 32);
  CHECK(model.heads == 32);
  CHECK(model.kv_heads == 8);
  CHECK(model.vocab == 128256);
  CHECK(model.max_positions == 131072);
  CHECK(model.norm_epsilon == 1e-5);
  CHECK(model.activation == "silu");
  CHECK(model.tied == false);
  CHECK(model.rope.theta == 500000.0);
  CHECK(model.windows.empty());
}

// The messages of a config that is read.
std::string remarks(const Json& config) {
  Diagnostics diags;
  REQUIRE(read_text(config.dump(), diags).has_value());
  std::string all;
  for (const Diagnostic& note : diags.all()) {
    CHECK(note.severity == Severity::Note);
    all += note.message + "\n";
  }
  return all;
}

TEST_CASE("what a config does not say is absent") {
  const ModelConfig model = good(Json::parse(R"({"head_dim": null})"));
  CHECK(model.model_type.empty());
  CHECK(model.architecture.empty());
  CHECK_FALSE(model.head_dim.has_value());
  CHECK_FALSE(model.norm_epsilon.has_value());
  CHECK_FALSE(model.tied.has_value());
  CHECK_FALSE(model.normalise_top_k.has_value());
  CHECK_FALSE(model.rope.theta.has_value());
  CHECK(model.rope.scaling.empty());
}

TEST_CASE("messages can point at the config") {
  Diagnostics diags;
  const auto model = read_text("  {\"hidden_size\": 8}", diags);
  REQUIRE(model);
  CHECK(testing::place_text(model->where) == "config.json:1:3");
}

TEST_CASE("gpt2 has names of its own") {
  const ModelConfig model = good(sample_config("gpt2"));
  CHECK(model.hidden == 768);
  CHECK(model.layers == 12);
  CHECK(model.heads == 12);
  CHECK(model.max_positions == 1024);
  CHECK(model.norm_epsilon == 1e-5);
  CHECK(model.activation == "gelu_new");
  CHECK(good(small_config("gpt2-inner")).intermediate == 40);
  CHECK_FALSE(good(changed(small_config("gpt2"), {{"n_inner", nullptr}}))
                  .intermediate.has_value());
}

TEST_CASE("experts") {
  const ModelConfig qwen = good(sample_config("qwen3-30b-a3b"));
  CHECK(qwen.experts == 128);
  CHECK(qwen.experts_per_token == 8);
  CHECK(qwen.expert_intermediate == 768);
  CHECK(qwen.normalise_top_k == true);
  CHECK(qwen.sparse_step == 1);
  CHECK(qwen.dense_layers.empty());
  CHECK(good(small_config("qwen3_moe-some-dense")).dense_layers ==
        std::vector<int64_t>{3});
  CHECK(good(sample_config("mixtral-8x7b")).experts == 8);
}

TEST_CASE("windows are those of the family") {
  const Json mistral =
      changed(small_config("mistral"), {{"sliding_window", 5}});
  CHECK(good(mistral).windows == std::vector<int64_t>{5, 5});
  const Json qwen =
      changed(small_config("qwen2"), {{"sliding_window", 5},
                                      {"use_sliding_window", true},
                                      {"max_window_layers", 1}});
  CHECK(good(qwen).windows == std::vector<int64_t>{0, 5});
  CHECK(good(changed(qwen, {{"use_sliding_window", false}})).windows.empty());
  CHECK(good(changed(qwen, {{"layer_types",
                             {"sliding_attention", "full_attention"}}}))
            .windows == std::vector<int64_t>{5, 0});
}

TEST_CASE("of a model with parts, the text's") {
  const Json config = {
      {"model_type", "llava"},
      {"architectures", {"LlavaForConditionalGeneration"}},
      {"tie_word_embeddings", true},
      {"hidden_size", 7},
      {"text_config", {{"model_type", "llama"}, {"hidden_size", 64}}}};
  const ModelConfig model = good(config);
  CHECK(model.model_type == "llama");
  CHECK(model.architecture == "LlavaForConditionalGeneration");
  CHECK(model.hidden == 64);
  CHECK(model.tied == true);
  CHECK(remarks(config) ==
        "only the text model of this `llava` is run, as a `llama`\n");
}

TEST_CASE("rope as every version of transformers spells it") {
  const Json llama = small_config("llama");
  const auto rope = [&](const Json& changes) {
    return good(changed(llama, changes)).rope;
  };
  CHECK(rope({{"rope_theta", 5e5}, {"rope_scaling", nullptr}}).theta == 5e5);
  const RopeConfig linear =
      rope({{"rope_scaling", {{"type", "linear"}, {"factor", 2.5}}}});
  CHECK(linear.scaling == "linear");
  CHECK(linear.factor == 2.5);
  const RopeConfig fifth = rope({{"rope_parameters",
                                  {{"rope_type", "default"},
                                   {"rope_theta", 1e6},
                                   {"partial_rotary_factor", 0.5}}}});
  CHECK(fifth.scaling.empty());
  CHECK(fifth.theta == 1e6);
  // Llama rotates whole heads.
  CHECK_FALSE(fifth.partial.has_value());
}

TEST_CASE("what transformers does not look at is left out, and said") {
  const Json llama = small_config("llama");
  for (const char* family :
       {"llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral"}) {
    CHECK(remarks(changed(small_config(family),
                          {{"partial_rotary_factor", 0.5}})) ==
          "`partial_rotary_factor` is not used: a `" + std::string(family) +
              "` rotates whole heads\n");
  }
  CHECK(refusal(changed(
            llama, {{"partial_rotary_factor", 0.5},
                    {"rope_scaling", {{"type", "linear"}, {"factor", 2}}}})) ==
        "SP009 a `llama` with `partial_rotary_factor` and rope scaling does "
        "not run in transformers");
  CHECK(remarks(changed(llama, {{"partial_rotary_factor", 1.0}})).empty());
}

TEST_CASE("of two kinds of rope scaling the newer key counts, which is said") {
  const Json llama = small_config("llama");
  const Json both = changed(
      llama,
      {{"rope_scaling",
        {{"type", "linear"}, {"rope_type", "default"}, {"factor", 4.0}}}});
  CHECK(good(both).rope.scaling.empty());
  CHECK(remarks(both) ==
        "`rope_type` is `default`, `type` is `linear`: the former is used\n");
  CHECK(remarks(changed(llama, {{"rope_scaling",
                                 {{"type", "linear"},
                                  {"rope_type", "linear"},
                                  {"factor", 4.0}}}}))
            .empty());
  const Json two = changed(
      llama,
      {{"rope_theta", 300.0},
       {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}},
       {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}}}});
  CHECK(good(two).rope.scaling == "linear");
  CHECK(good(two).rope.theta == 300.0);
  CHECK(remarks(two) ==
        "`rope_parameters` is not used: there is a `rope_scaling`\n");
}

TEST_CASE("rope that is not known is refused") {
  const Json llama = small_config("llama");
  const auto scaling = [&](const Json& value) {
    return refusal(changed(llama, {{"rope_scaling", value}}));
  };
  for (const char* kind : {"yarn", "dynamic", "longrope", "mrope"}) {
    CHECK(scaling({{"rope_type", kind}, {"factor", 2.0}}) ==
          "SP009 rope scaling `" + std::string(kind) + "` is not known");
  }
  CHECK(scaling({{"type", "linear"}}) ==
        "SP009 `rope_scaling.factor` is missing");
  CHECK(scaling({{"rope_type", "llama3"},
                 {"factor", 8},
                 {"low_freq_factor", 1},
                 {"high_freq_factor", 4}}) ==
        "SP009 `rope_scaling.original_max_position_embeddings` is missing");
  CHECK(scaling({{"rope_type", "llama3"},
                 {"factor", 8},
                 {"low_freq_factor", 4},
                 {"high_freq_factor", 4},
                 {"original_max_position_embeddings", 64}}) ==
        "SP009 `high_freq_factor` must exceed `low_freq_factor`");
  CHECK(scaling({{"full_attention", {{"rope_type", "default"}}},
                 {"sliding_attention", {{"rope_type", "default"}}}}) ==
        "SP009 `rope_scaling` differs between kinds of attention, which is not "
        "known");
  CHECK(scaling("linear") == "SP002 `rope_scaling` must be a map, not text");
  CHECK(refusal(changed(llama, {{"partial_rotary_factor", 2}})) ==
        "SP009 `partial_rotary_factor` is more than 1");
}

TEST_CASE("what is ill-typed or out of range is refused") {
  const Json llama = small_config("llama");
  const auto with = [&](const std::string& key, const Json& value) {
    return refusal(changed(llama, {{key, value}}));
  };
  CHECK(with("hidden_size", "64") ==
        "SP002 `hidden_size` must be an integer, not text");
  CHECK(with("hidden_size", 0) == "SP009 `hidden_size` is 0");
  CHECK(with("rms_norm_eps", -1) == "SP009 `rms_norm_eps` is -1");
  CHECK(with("rms_norm_eps", "1e-6") ==
        "SP002 `rms_norm_eps` must be a number, not text");
  CHECK(with("hidden_act", 3) ==
        "SP002 `hidden_act` must be text, not an integer");
  CHECK(with("tie_word_embeddings", 1) ==
        "SP002 `tie_word_embeddings` must be true or false, not an integer");
  CHECK(with("mlp_only_layers", 3) ==
        "SP002 `mlp_only_layers` must be a list, not an integer");
  CHECK(refusal(Json::array()) == "SP002 `a config` must be a map, not a list");
  Diagnostics diags;
  CHECK_FALSE(read_text(R"({"rope_theta": 1e999})", diags));
}

TEST_CASE("switches that no family follows are refused") {
  const Json gpt2 = small_config("gpt2");
  CHECK(refusal(changed(gpt2, {{"scale_attn_weights", false}})) ==
        "SP009 `scale_attn_weights` is false, which no family here computes");
  CHECK(refusal(changed(gpt2, {{"scale_attn_by_inverse_layer_idx", true}})) ==
        "SP009 `scale_attn_by_inverse_layer_idx` is true, which no family here "
        "computes");
  CHECK(refusal(Json{{"position_embedding_type", "relative_key"}}) ==
        "SP009 positions of type `relative_key` are not known");
}

TEST_CASE("the config of a model is itself or stands beside the weights") {
  MemoryHost host;
  const auto hidden = [&](const std::string& path) {
    Diagnostics diags;
    const auto model = find_model_config(path, host, diags);
    if (!model) return messages(diags);
    CHECK(diags.all().empty());
    return model->hidden ? std::to_string(*model->hidden) : "none";
  };
  host.files["m/config.json"] = R"({"model_type":"llama","hidden_size":64})";
  host.files["m/model.safetensors"] = testing::safetensors({{"a", "U8", {2}}});
  host.files["m/model.safetensors.index.json"] =
      R"({"weight_map":{"a":"model.safetensors"}})";
  host.files["m/list.json"] = R"({"tensors":{"a":{"shape":[2]}}})";
  host.files["alone.safetensors"] = testing::safetensors({{"a", "U8", {2}}});
  CHECK(hidden("m") == "64");
  CHECK(hidden("m/config.json") == "64");
  CHECK(hidden("m/model.safetensors") == "64");
  CHECK(hidden("m/model.safetensors.index.json") == "64");
  CHECK(hidden("m/list.json") == "none");  // not what the config is about
  CHECK(hidden("alone.safetensors") == "none");
  CHECK(hidden("@mlp") == "none");
  CHECK(hidden("-") == "none");
  CHECK(hidden("nothing") == "none");
  host.files["m/config.json"] = R"({"hidden_size":"big"})";
  CHECK(hidden("m") ==
        "SP002 m/config.json:1:16 `hidden_size` must be an integer, not text");
}

}  // namespace

}  // namespace shardplan
