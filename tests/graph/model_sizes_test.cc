// SPDX-License-Identifier: Apache-2.0
#include "graph/model_sizes.h"

#include <string>

#include <doctest/doctest.h>

#include "graph/decoder.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

struct Completed {
  std::optional<ModelConfig> config;
  Diagnostics diags;
  std::string messages;
};

Completed completed(const Manifest& manifest, const ModelConfig& config = {}) {
  Completed result;
  const ParameterNames names(manifest);
  result.config = complete_config({manifest, names, config, {}},
                                  decoder_sizes("llama"), result.diags);
  result.messages = testing::messages(result.diags);
  return result;
}

// 6 heads of 4 over a residual stream of 16, 2 KV heads.
Manifest decoder(bool norms) {
  std::vector<testing::NamedType> tensors = {
      {"embed_tokens.weight", "f32[40, 16]"},
      {"layers.0.self_attn.q_proj.weight", "f32[24, 16]"},
      {"layers.1.self_attn.k_proj.weight", "f32[8, 16]"},
      {"layers.0.self_attn.k_proj.weight", "f32[8, 16]"},
      {"layers.0.mlp.up_proj.weight", "f32[36, 16]"}};
  if (norms) tensors.push_back({"layers.0.self_attn.q_norm.weight", "f32[4]"});
  return testing::manifest(tensors);
}

TEST_CASE("model sizes: from shapes, where the size of a head is among them") {
  const Completed all = completed(decoder(true));
  REQUIRE(all.config);
  CHECK(all.config->vocab == 40);
  CHECK(all.config->hidden == 16);
  CHECK(all.config->intermediate == 36);
  CHECK(all.config->layers == 2);
  CHECK(all.config->heads == 6);
  CHECK(all.config->kv_heads == 2);
  CHECK(all.config->head_dim == 4);
  CHECK(all.config->norm_epsilon == 1e-6);
  CHECK(all.messages ==
        "SP013 note the model has no config: it is taken to have what a "
        "`llama` has by default");
  CHECK(all.diags.all().front().facts ==
        std::vector<std::string>{"epsilon of norms 1e-06",
                                 "activation function silu",
                                 "base of rotary positions 10000"});
}

TEST_CASE("model sizes: heads that nobody tells are asked for") {
  const Completed none = completed(decoder(false));
  CHECK_FALSE(none.config);
  CHECK(none.messages ==
        "SP013 the heads of this `llama` are not known: names and shapes do "
        "not tell them");
  CHECK(none.diags.all().front().facts ==
        std::vector<std::string>{"missing: `heads`", "missing: `kv_heads`",
                                 "missing: `head_dim`"});
  CHECK(none.diags.all().front().help.size() == 1);
}

TEST_CASE("model sizes: a config goes before facts, facts before shapes") {
  Manifest manifest = decoder(false);
  manifest.facts.heads = 3;
  manifest.facts.vocab = 41;
  ModelConfig config;
  config.model_type = "llama";
  config.heads = 6;
  const Completed some = completed(manifest, config);
  REQUIRE(some.config);
  CHECK(some.config->heads == 6);
  CHECK(some.config->head_dim == 4);
  CHECK(some.config->vocab == 41);
  CHECK(some.messages == "");  // a config's defaults are no guesses
}

TEST_CASE("model sizes: those that cannot be are refused") {
  ModelConfig config;
  config.model_type = "llama";
  config.heads = 5;
  config.head_dim = 4;
  CHECK(completed(decoder(false), config).messages ==
        "SP009 the number of heads is not a multiple of that of KV heads");
  config.heads = 6;
  config.layers = 10'001;
  CHECK(completed(decoder(false), config).messages ==
        "SP009 `layers` of the model is 10001");
  config.layers = 2;
  config.hidden = -16;
  CHECK(completed(decoder(false), config).messages ==
        "SP009 `hidden` of the model is -16");
  config.hidden.reset();
  CHECK(completed(testing::manifest({{"w", "f32[2]"}}), config).messages != "");
}

TEST_CASE("model sizes: of a stack the first dimension counts layers") {
  const Manifest manifest =
      testing::manifest({{"embed_tokens/embedding", "f32[40, 16]"},
                         {"layers/self_attn/q_proj/kernel", "f32[3, 16, 24]"},
                         {"layers/self_attn/k_proj/kernel", "f32[3, 16, 8]"},
                         {"layers/self_attn/q_norm/scale", "f32[3, 4]"},
                         {"layers/mlp/up_proj/kernel", "f32[3, 16, 36]"}});
  const Completed all = completed(manifest);
  REQUIRE(all.config);
  CHECK(all.config->layers == 3);
  CHECK(all.config->heads == 6);
  CHECK(all.config->kv_heads == 2);
  CHECK(all.config->intermediate == 36);
}

TEST_CASE("model sizes: layers that a pass runs") {
  ModelConfig config;
  config.layers = 4;
  CHECK(layers_run({}, config) == 4);
  CHECK(layers_run({2, 16, 3, {}}, config) == 3);
  CHECK(layers_run({2, 16, 9, {}}, config) == 4);
}

}  // namespace
}  // namespace shardplan
