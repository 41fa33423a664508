// SPDX-License-Identifier: Apache-2.0
#include "model/forward/recognise.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model/architectures.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::tiny_model;
using testing::whole_model;
using testing::WholeModel;

// The architecture that is recognised, or what is reported.
std::string recognised(Manifest manifest, const Json& config = nullptr) {
  const auto model = whole_model(std::move(manifest), config);
  return model->model ? model->model->architecture->name : model->messages;
}

// Without what a config or a manifest says beside names and shapes.
Manifest bare(Manifest manifest) {
  manifest.facts = {};
  return manifest;
}

TEST_CASE("recognise: by the config's model_type, whatever the names") {
  for (const std::string& name : computing_architectures()) {
    // No config names it: it is asked for by --architecture.
    const auto& types = find_architecture(name)->model_types;
    if (types.empty()) continue;
    CHECK(recognised(testing::manifest({{"w", "f32[2]"}}),
                     {{"model_type", types.front()}}) == name);
  }
}

TEST_CASE("recognise: without a config by names, in every scheme of names") {
  for (const std::string name :
       {"llama", "qwen3", "mixtral", "qwen3_moe", "gpt2", "bert"}) {
    CAPTURE(name);
    const Manifest manifest = tiny_model(name).manifest;
    CHECK(recognised(manifest) == name);
    for (const auto stacking :
         {testing::Stacking::None, testing::Stacking::LayersAndExperts}) {
      CHECK(recognised(testing::flax_names(manifest, stacking).manifest) ==
            name);
    }
  }
  // Names tell these two from Llama by biases, or not at all.
  CHECK(recognised(tiny_model("qwen2").manifest) == "qwen2");
  CHECK(recognised(tiny_model("mistral").manifest) == "llama");
  const std::string alike = whole_model(tiny_model("mistral").manifest, {})
                                ->diags.all()
                                .front()
                                .facts.back();
  CHECK(alike.find("its names also match ") == 0);
  CHECK(alike.find(" gemma, ") != std::string::npos);
  CHECK(alike.find(" mistral, ") != std::string::npos);
  // Norms of heads, or of all heads together: shapes tell.
  CHECK(recognised(tiny_model("qwen3_moe").manifest) != "olmoe");
}

TEST_CASE("recognise: Mixtral as transformers 5 has it in memory") {
  Manifest manifest;
  const Manifest fused = tiny_model("qwen3_moe", "fused").manifest;
  for (size_t i = 0; i < fused.size(); ++i) {
    const std::string name(fused.name(i));
    if (name.find("_norm.weight") != std::string::npos) continue;
    REQUIRE(manifest.add(name, fused.type(i), {}));
  }
  manifest.facts = fused.facts;
  CHECK(recognised(manifest) == "mixtral");
}

TEST_CASE("recognise: what only a buffer tells is asked for its config") {
  // A K-EXAONE has all names of a Qwen 3 with experts, and is not taken for
  // one.
  const Manifest manifest = tiny_model("qwen3_moe").manifest;
  CHECK(find_architecture("exaone_moe")->computes);
  CHECK_FALSE(find_architecture("exaone_moe")->by_names);
  CHECK(recognised(manifest) == "qwen3_moe");
}

TEST_CASE("recognise: the class of a BERT by what it has") {
  for (const auto& [variant, name] :
       {std::pair{"", "BertModel"}, {"head", "BertForMaskedLM"}}) {
    const auto model = whole_model(tiny_model("bert", variant).manifest, {});
    REQUIRE(model->model);
    CHECK(model->model->model_class->class_name == name);
  }
}

TEST_CASE("recognise: an unknown model_type is reported with its like") {
  const auto model =
      whole_model(tiny_model("llama").manifest, {{"model_type", "qwen4"}});
  CHECK_FALSE(model->model);
  CHECK(model->messages ==
        "SP016 config.json:1:1 the forward pass of `qwen4` is not supported");
  const Diagnostic& diagnostic = model->diags.all().front();
  CHECK(diagnostic.help.front() == "did you mean `qwen2`?");
  CHECK(diagnostic.help[1].find("model families are supported") !=
        std::string::npos);
  CHECK(diagnostic.help[2].find("--graph FILE") != std::string::npos);
}

TEST_CASE("recognise: an architecture without a forward pass is not run") {
  CHECK(recognised(tiny_model("llama").manifest,
                   {{"model_type", "deberta-v2"}}) ==
        "SP016 config.json:1:1 the forward pass of `deberta-v2` is not "
        "supported");
}

TEST_CASE("recognise: what was looked for and not found is reported") {
  Manifest manifest;
  const Manifest whole = tiny_model("llama").manifest;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole.name(i).find("k_proj") != std::string_view::npos) continue;
    REQUIRE(manifest.add(whole.name(i), whole.type(i), {}));
  }
  const auto model = whole_model(manifest, {});
  REQUIRE_FALSE(model->model);
  const Diagnostic& diagnostic = model->diags.all().front();
  CHECK(diagnostic.code == Code::UnknownFamily);
  CHECK(diagnostic.facts.at(0) ==
        "`llama` is closest: 10 of 11 expected names found");
  CHECK(diagnostic.facts.at(1) ==
        "not found: `layers.*.self_attn.k_proj.weight`");
  CHECK(diagnostic.facts.back().find("`embed_tokens.weight`") !=
        std::string::npos);
}

TEST_CASE("recognise: names that mean another computation are not taken") {
  Manifest manifest = tiny_model("llama").manifest;
  REQUIRE(manifest.add("model.layers.0.mlp.extra_norm.weight",
                       testing::type("f32[16]"), {}));
  const auto model = whole_model(manifest, {});
  CHECK_FALSE(model->model);
  CHECK(model->diags.all().front().facts.at(1) ==
        "a `llama` has no `layers.*.mlp.extra_norm.weight`");
}

TEST_CASE("recognise: a model of nothing") {
  CHECK(recognised({}).find("SP016") == 0);
}

std::optional<int64_t> size(const WholeModel& model, const char* name) {
  return model_size(*model.model, name);
}

TEST_CASE("model sizes: from shapes, where the size of a head is among them") {
  const auto all = whole_model(bare(tiny_model("qwen3").manifest), {});
  REQUIRE(all->model);
  CHECK(size(*all, "vocab") == 32);
  CHECK(size(*all, "hidden") == 16);
  CHECK(size(*all, "mlp") == 24);
  CHECK(size(*all, "layers") == 2);
  CHECK(size(*all, "heads") == 4);
  CHECK(size(*all, "kv_heads") == 2);
  CHECK(size(*all, "head_dim") == 8);
  CHECK(all->messages ==
        "SP013 note the model has no config: assuming the defaults of `qwen3`");
  CHECK(all->diags.all().front().facts ==
        std::vector<std::string>{"epsilon 1e-06", "rope_theta 10000",
                                 "activation silu"});
  CHECK(all->graph);
}

TEST_CASE("model sizes: heads that nobody tells are asked for") {
  const auto none = whole_model(bare(tiny_model("llama").manifest), {});
  CHECK_FALSE(none->model);
  CHECK(none->messages ==
        "SP013 sizes of this `llama` are unknown: names and shapes do not "
        "determine them");
  CHECK(none->diags.all().front().facts ==
        std::vector<std::string>{"missing: `heads`", "missing: `head_dim`",
                                 "missing: `kv_heads`"});
  CHECK(none->diags.all().front().help.size() == 1);
}

TEST_CASE("model sizes: a config goes before facts, facts before shapes") {
  testing::TinyModel tiny = tiny_model("llama");
  tiny.manifest.facts = {};
  tiny.manifest.facts.heads = 2;
  tiny.manifest.facts.vocab = 41;
  const auto shapes = whole_model(tiny.manifest, {});
  REQUIRE(shapes->model);
  CHECK(size(*shapes, "heads") == 2);
  CHECK(size(*shapes, "head_dim") == 8);
  CHECK(size(*shapes, "kv_heads") == 1);
  CHECK(size(*shapes, "vocab") == 41);
  CHECK(shapes->messages.find("SP015 `model.embed_tokens.weight` has a "
                              "different shape in the model") !=
        std::string::npos);
  const auto config = whole_model(tiny.manifest, tiny.config);
  REQUIRE(config->model);
  CHECK(size(*config, "heads") == 4);
  CHECK(size(*config, "vocab") == 32);
  CHECK(config->messages == "");  // a config's defaults are no guesses
}

TEST_CASE("model sizes: those that cannot be are refused") {
  const testing::TinyModel tiny = tiny_model("llama");
  const auto refusal = [&](const Json& changes) {
    return whole_model(tiny.manifest, changed(tiny.config, changes))->messages;
  };
  CHECK(refusal({{"num_attention_heads", 5}}) ==
        "SP009 config.json:1:131 `num_attention_heads` must be a multiple of "
        "`num_key_value_heads`");
  CHECK(refusal({{"num_hidden_layers", 10'001}}).find("SP009") == 0);
  CHECK(refusal({{"hidden_size", -16}}) ==
        "SP009 config.json:1:16 `hidden_size` is -16");
}

// Whether scales stand beside them or not, the numbers are not the weights.
TEST_CASE("recognise: quantised models are not run as though they were plain") {
  const auto quantised = [](const char* type) {
    Manifest manifest;
    const testing::TinyModel tiny = tiny_model("llama");
    for (size_t i = 0; i < tiny.manifest.size(); ++i) {
      TensorType own = tiny.manifest.type(i);
      const bool chosen =
          tiny.manifest.name(i).find("up_proj") != std::string_view::npos;
      if (chosen) own.dtype = testing::type(std::string(type) + "[2]").dtype;
      REQUIRE(manifest.add(tiny.manifest.name(i), own, {}));
    }
    return whole_model(manifest, tiny.config);
  };
  for (const char* type : {"f8_e4m3", "i32", "u8", "u32", "i8"}) {
    CAPTURE(type);
    const auto model = quantised(type);
    CHECK(model->messages ==
          "SP009 config.json:1:1 this `llama` is quantised, and its forward "
          "pass needs unquantised weights");
    CHECK_FALSE(model->graph);
  }
  CHECK(quantised("f16")->graph);
}

// A config that is none has no place that a message could point at.
TEST_CASE("model sizes: what no config says is refused without a place") {
  Manifest manifest = bare(tiny_model("qwen3_moe").manifest);
  const auto model = whole_model(manifest, {});
  CHECK(model->messages.find(
            "SP009 experts per token must be 1 to the number of experts") !=
        std::string::npos);
  for (const Diagnostic& each : model->diags.all()) CHECK(each.labels.empty());
}

TEST_CASE("model sizes: of a stack the first dimension counts layers") {
  const Manifest manifest = tiny_model("qwen3").manifest;
  const auto names = testing::flax_names(manifest, testing::Stacking::Layers);
  const auto all = whole_model(bare(names.manifest), {});
  REQUIRE_MESSAGE(all->model, all->messages);
  CHECK(size(*all, "layers") == 2);
  CHECK(size(*all, "heads") == 4);
  CHECK(size(*all, "kv_heads") == 2);
  CHECK(size(*all, "mlp") == 24);
}

TEST_CASE("model sizes: layers that a pass runs") {
  CHECK(layers_run({}, 4) == 4);
  CHECK(layers_run({2, 16, 3, {}}, 4) == 3);
  CHECK(layers_run({2, 16, 9, {}}, 4) == 4);
}

}  // namespace
}  // namespace shardplan
