// SPDX-License-Identifier: Apache-2.0
#include "graph/shrink.h"

#include <map>
#include <string>

#include <doctest/doctest.h>

#include "graph/build.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::mesh;

TEST_CASE("shrink: sizes keep their rest, and are the smallest that do") {
  CHECK(shrunk_size(8192, 8, 8) == 8);
  CHECK(shrunk_size(8192, 6, 8) == 8);     // 8192 = 2 modulo 6
  CHECK(shrunk_size(50257, 4, 32) == 33);  // odd stays odd
  CHECK(shrunk_size(50257, 1, 32) == 32);
  CHECK(shrunk_size(12, 64, 8) == 12);
  CHECK(shrunk_size(5, 2, 8) == 5);
  CHECK(shrunk_size(INT64_MAX, INT64_MAX - 1, 8) == INT64_MAX);
  for (int64_t size = 1; size < 200; ++size) {
    for (int64_t modulus = 1; modulus < 40; ++modulus) {
      const int64_t shrunk = shrunk_size(size, modulus, 8);
      CHECK(shrunk % modulus == size % modulus);
      CHECK(shrunk <= size);
      CHECK((shrunk >= 8 || shrunk == size));
      CHECK((shrunk == size || shrunk < 8 + modulus));
    }
  }
}

struct Shrunk {
  std::unique_ptr<testing::Synthesis> large;
  std::optional<Model> small;
  Diagnostics diags;
  std::string messages;
};

std::unique_ptr<Shrunk> shrunk_config(const testing::Json& config,
                                      const Mesh& devices,
                                      ForwardPass pass = {}) {
  auto result = std::make_unique<Shrunk>();
  result->large = testing::synthesize(config);
  const Manifest& manifest = result->large->good();
  const auto model = recognise_model(manifest, testing::parsed_config(config),
                                     nullptr, result->diags);
  REQUIRE(model);
  result->small = shrink(*model, {manifest, pass}, devices, result->diags);
  result->messages = testing::messages(result->diags);
  return result;
}

std::unique_ptr<Shrunk> shrunk(const std::string& config, const Mesh& devices,
                               ForwardPass pass = {}) {
  return shrunk_config(testing::sample_config(config), devices, pass);
}

// Specs by parameter under the family's rules.
std::map<std::string, std::string> specs(const Manifest& manifest,
                                         const char* rules,
                                         const Mesh& devices) {
  testing::MemoryHost host;
  const auto loaded = testing::loaded_rules(host, rules);
  REQUIRE(loaded->rules);
  Diagnostics diags;
  const auto plan = resolve(manifest, *loaded->rules, devices, {}, diags);
  REQUIRE(plan);
  std::map<std::string, std::string> result;
  for (size_t i = 0; i < manifest.size(); ++i) {
    result[std::string(manifest.name(i))] = spec_text(plan->of(i).spec);
  }
  return result;
}

TEST_CASE("shrink: real models are placed as before, parameter by parameter") {
  const std::pair<const char*, const char*> models[] = {
      {"llama-3.1-8b", "@llama"},
      {"llama-3.2-1b", "@llama"},
      {"mixtral-8x7b", "@mixtral"},
      {"qwen2-7b", "@qwen2"},
      {"gpt2", "@gpt2"}};
  for (const auto& model : models) {
    const auto& config = model.first;
    const auto& rules = model.second;
    for (const char* text : {"fsdp=2,tp=2", "tp=8", "fsdp=3,tp=6", "dp=5"}) {
      CAPTURE(config);
      CAPTURE(text);
      const Mesh devices = mesh(text);
      const auto both = shrunk(config, devices);
      REQUIRE_MESSAGE(both->small, both->messages);
      const auto large = specs(both->large->good(), rules, devices);
      const auto small = specs(both->small->manifest, rules, devices);
      CHECK(small.size() > 10);
      for (const auto& placed : small) {
        CAPTURE(placed.first);
        CHECK(placed.second == large.at(placed.first));
      }
      CHECK(both->small->manifest.total_elements() <
            both->large->good().total_elements() / 20);
    }
  }
}

TEST_CASE("shrink: heads of a state space still fill the model") {
  const testing::Json config = {
      {"model_type", "mamba2"}, {"architectures", {"Mamba2ForCausalLM"}},
      {"hidden_size", 1152},    {"num_heads", 36},
      {"head_dim", 64},         {"expand", 2},
      {"n_groups", 4},          {"state_size", 16},
      {"vocab_size", 32000},    {"num_hidden_layers", 24}};
  for (const char* text : {"fsdp=2,tp=2", "tp=4", "fsdp=3,tp=6", "dp=5"}) {
    CAPTURE(text);
    const Mesh devices = mesh(text);
    const auto both = shrunk_config(config, devices);
    REQUIRE_MESSAGE(both->small, both->messages);
    const auto large = specs(both->large->good(), "@all_models", devices);
    for (const auto& placed :
         specs(both->small->manifest, "@all_models", devices)) {
      CAPTURE(placed.first);
      CHECK(placed.second == large.at(placed.first));
    }
    CHECK(both->small->manifest.total_elements() <
          both->large->good().total_elements() / 20);
  }
}

// Sizes of released models, with fewer layers and experts.
TEST_CASE("shrink: parts of heads shrink with the ranks beside them") {
  const testing::Json latent = {{"model_type", "deepseek_v3"},
                                {"architectures", {"DeepseekV3ForCausalLM"}},
                                {"hidden_size", 7168},
                                {"intermediate_size", 18432},
                                {"moe_intermediate_size", 2048},
                                {"num_attention_heads", 128},
                                {"num_key_value_heads", 128},
                                {"q_lora_rank", 1536},
                                {"kv_lora_rank", 512},
                                {"qk_nope_head_dim", 128},
                                {"qk_rope_head_dim", 64},
                                {"qk_head_dim", 192},
                                {"v_head_dim", 128},
                                {"n_routed_experts", 16},
                                {"n_shared_experts", 1},
                                {"num_experts_per_tok", 2},
                                {"n_group", 4},
                                {"topk_group", 2},
                                {"first_k_dense_replace", 1},
                                {"num_hidden_layers", 4},
                                {"vocab_size", 129280}};
  const testing::Json whole = testing::changed(
      latent, {{"q_lora_rank", nullptr}, {"qk_head_dim", nullptr}});
  const testing::Json delta = {{"model_type", "qwen3_next"},
                               {"architectures", {"Qwen3NextForCausalLM"}},
                               {"hidden_size", 2048},
                               {"intermediate_size", 5120},
                               {"moe_intermediate_size", 512},
                               {"shared_expert_intermediate_size", 512},
                               {"num_attention_heads", 16},
                               {"num_key_value_heads", 2},
                               {"head_dim", 256},
                               {"linear_num_key_heads", 16},
                               {"linear_num_value_heads", 32},
                               {"linear_key_head_dim", 128},
                               {"linear_value_head_dim", 128},
                               {"linear_conv_kernel_dim", 4},
                               {"num_experts", 8},
                               {"num_experts_per_tok", 2},
                               {"num_hidden_layers", 8},
                               {"vocab_size", 151936}};
  for (const testing::Json& config : {latent, whole, delta}) {
    for (const char* text : {"fsdp=2,tp=2", "tp=8", "fsdp=3,tp=6", "dp=5"}) {
      CAPTURE(config.dump());
      CAPTURE(text);
      const auto both = shrunk_config(config, mesh(text));
      REQUIRE_MESSAGE(both->small, both->messages);
      const auto large = specs(both->large->good(), "@all_models", mesh(text));
      for (const auto& placed :
           specs(both->small->manifest, "@all_models", mesh(text))) {
        CAPTURE(placed.first);
        CHECK(placed.second == large.at(placed.first));
      }
      CHECK(both->small->manifest.total_elements() <
            both->large->good().total_elements() / 500);
    }
    const auto both = shrunk_config(config, mesh("fsdp=2,tp=2"));
    const auto model = testing::whole_model_of(
        both->small->manifest, *both->small->forward(), {2, 4, {}, {}});
    REQUIRE_MESSAGE(model->graph, model->messages);
    const auto run = testing::simulated(*model, "@all_models", "fsdp=2,tp=2",
                                        ValueSource::Random);
    REQUIRE(run.simulation);
    CHECK_FALSE(run.simulation->mismatch);
  }
}

TEST_CASE("shrink: heads, groups and experts are kept, and facts follow") {
  const auto both = shrunk("mixtral-8x7b", mesh("ep=4,tp=2"));
  REQUIRE_MESSAGE(both->small, both->messages);
  const auto size = [&](const char* name) {
    return model_size(*both->small->forward(), name);
  };
  CHECK(size("heads") == 32);
  CHECK(size("kv_heads") == 8);
  CHECK(size("experts") == 8);
  CHECK(size("experts_per_token") == 2);
  CHECK(size("layers") == 2);
  CHECK(size("head_dim") == 4);
  CHECK(size("hidden") == 128);
  const Facts& facts = both->small->manifest.facts;
  CHECK(facts.heads == 32);
  CHECK(facts.head_dim == 4);
  CHECK(facts.layers == 2);
  CHECK(facts.vocab == size("vocab"));
  CHECK(testing::has_tensor(
      both->small->manifest,
      "model.layers.1.block_sparse_moe.experts.7.w2.weight"));
  CHECK_FALSE(testing::has_tensor(both->small->manifest,
                                  "model.layers.2.input_layernorm.weight"));
}

TEST_CASE("shrink: as many layers as are asked for, and what is small stays") {
  const auto more = shrunk("llama-3.2-1b", mesh("tp=2"), {2, 16, 5, {}});
  REQUIRE(more->small);
  CHECK(model_size(*more->small->forward(), "layers") == 5);
  // Positions there are at least as many as tokens.
  const auto long_run = shrunk("gpt2", mesh("tp=2"), {1, 100, {}, {}});
  REQUIRE(long_run->small);
  CHECK(model_size(*long_run->small->forward(), "positions") == 100);

  auto [manifest, config] = testing::tiny_model("qwen3");
  Diagnostics diags;
  const auto model =
      recognise_model(manifest, testing::parsed_config(config), nullptr, diags);
  REQUIRE(model);
  const auto small = shrink(*model, {manifest, {}}, mesh("tp=64"), diags);
  REQUIRE(small);
  CHECK(small->manifest.total_elements() == manifest.total_elements());
}

TEST_CASE("shrink: layers of every kind are left, with their buffers") {
  const auto config = testing::changed(
      testing::small_config("deepseek_v3"),
      {{"num_hidden_layers", 6}, {"first_k_dense_replace", 3}});
  const auto result = shrunk_config(config, mesh("tp=2"));
  REQUIRE_MESSAGE(result->small, result->messages);
  CHECK(model_size(*result->small->forward(), "layers") == 4);
  // Three layers are dense.
  REQUIRE(result->small->manifest.buffers().size() == 1);
  CHECK(result->small->manifest.buffers().front().name ==
        "model.layers.3.mlp.gate.e_score_correction_bias");
  const auto run = testing::whole_model_of(result->small->manifest,
                                           *result->small->forward());
  CHECK_MESSAGE(run->graph, run->messages);
}

TEST_CASE("shrink: embeddings as wide as the model stay so") {
  const testing::Json config = {
      {"model_type", "opt"},       {"architectures", {"OPTForCausalLM"}},
      {"hidden_size", 768},        {"ffn_dim", 3072},
      {"num_attention_heads", 12}, {"num_hidden_layers", 3},
      {"vocab_size", 1000},        {"word_embed_proj_dim", 768}};
  const auto same = shrunk_config(config, mesh("tp=2"));
  REQUIRE_MESSAGE(same->small, same->messages);
  const auto& model = *same->small->forward();
  CHECK(model_size(model, "embedded") == model_size(model, "hidden"));
  CHECK(*model_size(model, "hidden") < 768);
  const auto other = shrunk_config(
      testing::changed(config, {{"word_embed_proj_dim", 512}}), mesh("tp=2"));
  REQUIRE_MESSAGE(other->small, other->messages);
  CHECK(testing::has_tensor(other->small->manifest,
                            "model.decoder.project_in.weight"));
}

TEST_CASE("shrink: the small model runs, sharded as the large one would be") {
  const auto both = shrunk("qwen2-7b", mesh("fsdp=2,tp=2"));
  REQUIRE_MESSAGE(both->small, both->messages);
  const auto model = testing::whole_model_of(
      both->small->manifest, *both->small->forward(), {2, 4, 1, {}});
  REQUIRE_MESSAGE(model->graph, model->messages);
  const auto run =
      testing::simulated(*model, "@qwen2", "fsdp=2,tp=2", ValueSource::Random);
  REQUIRE(run.simulation);
  CHECK_FALSE(run.simulation->mismatch);
}

TEST_CASE("shrink: stacked layers are as many as are kept") {
  auto [manifest, config] = testing::tiny_model("llama");
  const auto names = testing::flax_names(manifest, testing::Stacking::Layers);
  Diagnostics diags;
  const auto large = recognise_model(
      names.manifest, testing::parsed_config(config), nullptr, diags);
  REQUIRE(large);
  const auto small =
      shrink(*large, {names.manifest, {2, 4, 1, {}}}, mesh("tp=2"), diags);
  REQUIRE(small);
  const auto model =
      testing::whole_model_of(small->manifest, *small->forward());
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK(testing::type_of(small->manifest,
                         "params/model/layers/self_attn/q_proj/kernel")
            .shape[0] == 1);
}

TEST_CASE("shrink: shapes that contradict the config are reported before") {
  auto [manifest, config] = testing::tiny_model("llama");
  config["intermediate_size"] = 28;
  Diagnostics diags;
  const auto model =
      recognise_model(manifest, testing::parsed_config(config), nullptr, diags);
  REQUIRE(model);
  CHECK_FALSE(shrink(*model, {manifest, {}}, mesh("tp=2"), diags));
  CHECK(testing::messages(diags).find("SP015") == 0);
}

}  // namespace
}  // namespace shardplan
