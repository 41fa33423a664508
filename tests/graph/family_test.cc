// SPDX-License-Identifier: Apache-2.0
#include "graph/family.h"

#include <string>

#include <doctest/doctest.h>

#include "graph/decoder.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::manifest;

// The place in the manifest, "i" where inputs come first, "s" where stacked.
std::string found(const ParameterNames& names, std::string_view name) {
  const NamedParameter* parameter = names.find(name);
  if (parameter == nullptr) return "none";
  return std::to_string(parameter->index) +
         (parameter->inputs_first ? "i" : "") + (parameter->stacked ? "s" : "");
}

TEST_CASE("parameter names: Hugging Face's, without the outer modules") {
  const Manifest m = manifest(
      {{"model.language_model.embed_tokens.weight", "f32[8, 4]"},
       {"model.language_model.layers.0.self_attn.q_proj.weight", "f32[4, 4]"},
       {"model.language_model.layers.11.self_attn.q_proj.weight", "f32[4, 4]"},
       {"lm_head.weight", "f32[8, 4]"},
       {"model.vision_tower.layers.30.norm.weight", "f32[4]"}});
  const ParameterNames names(m);
  CHECK(found(names, "embed_tokens.weight") == "0");
  CHECK(found(names, "layers.0.self_attn.q_proj.weight") == "1");
  CHECK(found(names, "layers.11.self_attn.q_proj.weight") == "2");
  CHECK(found(names, "layers.1.self_attn.q_proj.weight") == "none");
  CHECK(found(names, "lm_head.weight") == "3");
  CHECK(names.layer_count("layers") == 12);
  CHECK(names.layer_count("h") == 0);
}

TEST_CASE("parameter names: Flax's, whose kernels have inputs first") {
  const Manifest m = manifest(
      {{"params/model/embed_tokens/embedding/value", "f32[8, 4]"},
       {"params/model/layers_0/self_attn/q_proj/kernel/value", "f32[4, 6]"},
       {"params/model/layers/1/self_attn/q_proj/kernel", "f32[4, 6]"},
       {"params/model/layers/1/input_layernorm/scale", "f32[4]"},
       {"params/model/norm/kernel", "f32[4]"},
       {"params/model/layers/1/mlp/experts_3/up_proj/kernel", "f32[4, 6]"}});
  const ParameterNames names(m);
  CHECK(found(names, "embed_tokens.weight") == "0");
  CHECK(found(names, "layers.0.self_attn.q_proj.weight") == "1i");
  CHECK(found(names, "layers.1.self_attn.q_proj.weight") == "2i");
  CHECK(found(names, "layers.1.input_layernorm.weight") == "3");
  CHECK(found(names, "norm.weight") == "4i");
  CHECK(found(names, "layers.1.mlp.experts.3.up_proj.weight") == "5i");
  CHECK(names.layer_count("layers") == 2);
}

TEST_CASE("parameter names: layers and experts that are stacked") {
  const Manifest m =
      manifest({{"model/layers/self_attn/q_proj/kernel", "f32[5, 4, 6]"},
                {"model/layers/mlp/experts/up_proj/kernel", "f32[5, 2, 4, 6]"},
                {"encoder/layer/output/dense/bias", "f32[3, 4]"}});
  const ParameterNames names(m);
  CHECK(found(names, "layers.4.self_attn.q_proj.weight") == "0is");
  CHECK(found(names, "layers.0.mlp.experts.up_proj.weight") == "1is");
  CHECK(found(names, "encoder.layer.2.output.dense.bias") == "2s");
  CHECK(names.layer_count("layers") == 5);
  CHECK(names.layer_count("encoder.layer") == 3);
}

TEST_CASE("parameter names: BERT's old names of norms; tensors of no module") {
  const Manifest m =
      manifest({{"bert.embeddings.LayerNorm.gamma", "f32[4]"},
                {"bert.embeddings.LayerNorm.beta", "f32[4]"},
                {"layers.0.mlp.experts.gate_up_proj", "f32[2, 8, 4]"},
                {"scale", "f32[]"},
                {"layers.x", "f32[]"}});
  const ParameterNames names(m);
  CHECK(found(names, "embeddings.LayerNorm.weight") == "0");
  CHECK(found(names, "embeddings.LayerNorm.bias") == "1");
  CHECK(found(names, "layers.0.mlp.experts.gate_up_proj") == "2");
  CHECK(found(names, "scale") == "3");
  // A scalar counts no layers.
  CHECK(names.layer_count("layers") == 1);
}

TEST_CASE("parameter names: folded ones are alike for every scheme") {
  const std::vector<std::string> wanted = {
      "layers.*.mlp.experts.*.up_proj.weight", "norm.weight"};
  CHECK(ParameterNames(
            manifest(
                {{"model.layers.0.mlp.experts.0.up_proj.weight", "f32[4, 4]"},
                 {"model.layers.7.mlp.experts.3.up_proj.weight", "f32[4, 4]"},
                 {"model.norm.weight", "f32[4]"}}))
            .folded() == wanted);
  CHECK(ParameterNames(manifest({{"model/layers/mlp/experts/0/up_proj/kernel",
                                  "f32[8, 4, 4]"},
                                 {"model/norm/scale", "f32[4]"}}))
            .folded() == wanted);
}

TEST_CASE("parameter names: numbers that are no counts") {
  const Manifest m =
      manifest({{"layers.99999999999999999999.w.weight", "f32[4]"},
                {"layers.9223372036854775807.w.weight", "f32[4]"}});
  CHECK(ParameterNames(m).layer_count("layers") == 0);
}

using testing::tiny_model;
using testing::whole_model;

// The family that is recognised, or what is reported.
std::string recognised(Manifest manifest, const std::string& model_type) {
  ModelConfig config;
  config.model_type = model_type;
  const auto model = whole_model(std::move(manifest), config);
  return model->family == nullptr ? model->messages
                                  : std::string(model->family->name);
}

TEST_CASE("family: by the config's model_type, whatever the names") {
  for (const Family& family : model_families()) {
    CHECK(recognised(testing::manifest({{"w", "f32[2]"}}),
                     std::string(family.name)) == family.name);
  }
}

TEST_CASE("family: without a config by names, in every scheme of names") {
  for (const std::string family :
       {"llama", "qwen3", "mixtral", "qwen3_moe", "gpt2", "bert"}) {
    CAPTURE(family);
    const Manifest manifest = tiny_model(family).manifest;
    CHECK(recognised(manifest, "") == family);
    for (const auto stacking :
         {testing::Stacking::None, testing::Stacking::LayersAndExperts}) {
      CHECK(recognised(testing::flax_names(manifest, stacking).manifest, "") ==
            family);
    }
  }
  // Names tell these two from Llama by biases, or not at all.
  CHECK(recognised(tiny_model("qwen2").manifest, "") == "qwen2");
  CHECK(recognised(tiny_model("mistral").manifest, "") == "llama");
}

TEST_CASE("family: an unknown model_type is reported with its like") {
  const auto model = whole_model(tiny_model("llama").manifest, [] {
    ModelConfig config;
    config.model_type = "qwen4";
    return config;
  }());
  CHECK(model->family == nullptr);
  CHECK(model->messages == "SP016 the forward pass of `qwen4` is not known");
  const Diagnostic& told = model->diags.all().front();
  CHECK(told.help.front() == "did you mean `qwen2`?");
  CHECK(told.help[1].find("mixtral") != std::string::npos);
  CHECK(told.help[2].find("--graph FILE") != std::string::npos);
}

TEST_CASE("family: what was looked for and not found is reported") {
  Manifest manifest;
  const Manifest whole = tiny_model("llama").manifest;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole.name(i).find("up_proj") != std::string_view::npos) continue;
    REQUIRE(manifest.add(whole.name(i), whole.type(i), {}));
  }
  const auto model = whole_model(manifest, {});
  REQUIRE(model->family == nullptr);
  const Diagnostic& told = model->diags.all().front();
  CHECK(told.code == Code::UnknownFamily);
  CHECK(told.facts.at(0) ==
        "`llama` is nearest: 10 of 11 names looked for are there");
  CHECK(told.facts.at(1) == "not found: `layers.*.mlp.up_proj.weight`");
  CHECK(told.facts.back().find("`embed_tokens.weight`") != std::string::npos);
}

TEST_CASE("family: names that mean another computation are not taken") {
  Manifest manifest = tiny_model("llama").manifest;
  REQUIRE(manifest.add("model.layers.0.pre_feedforward_layernorm.weight",
                       testing::type("f32[16]"), {}));
  const auto model = whole_model(manifest, {});
  CHECK(model->family == nullptr);
  CHECK(model->diags.all().front().facts.at(1) ==
        "a `llama` has no `layers.*.pre_feedforward_layernorm.weight`");
}

TEST_CASE("family: a model of nothing") {
  CHECK(recognised({}, "").find("SP016") == 0);
}

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
        "not determine them");
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
