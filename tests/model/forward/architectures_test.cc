// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "model/forward/forward.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::disagreements;
using testing::Stacking;
using testing::tiny_model;
using testing::whole_model;
using testing::whole_model_of;

// As many tokens and layers as it takes for what depends on positions.
constexpr ForwardPass kShort = {2, 4, 1, {}};

std::unique_ptr<testing::WholeModel> tiny(const std::string& architecture,
                                          const std::string& variant = "",
                                          ForwardPass pass = {4, 8, {}, {}}) {
  auto [manifest, config] = tiny_model(architecture, variant);
  auto model = whole_model(std::move(manifest), std::move(config), pass);
  REQUIRE_MESSAGE(model->graph, model->messages);
  return model;
}

TEST_CASE("dense decoders: sharded is unsharded") {
  CHECK(disagreements(*tiny("llama", "", kShort), "@llama") == "");
  CHECK(disagreements(*tiny("qwen2", "window", kShort), "@qwen2") == "");
  CHECK(disagreements(*tiny("qwen2", "tied", kShort), "@qwen2") == "");
  CHECK(disagreements(*tiny("qwen3", "", kShort), "@qwen3") == "");
}

TEST_CASE("dense decoders: any scheme of names gives the same outputs") {
  for (const std::string variant : {"", "biased", "tied"}) {
    const auto model = tiny("llama", variant);
    for (const Stacking stacking : {Stacking::None, Stacking::Layers}) {
      const auto names = testing::flax_names(model->manifest, stacking);
      CHECK(testing::largest_difference(*model, names) < 1e-5);
    }
  }
  const auto model = tiny("qwen3");
  CHECK(testing::largest_difference(
            *model, testing::flax_names(model->manifest, Stacking::Layers)) <
        1e-5);
}

TEST_CASE("dense decoders: stacked layers are views, and Flax's too sharded") {
  const auto model = tiny("llama");
  const auto names = testing::flax_names(model->manifest, Stacking::Layers);
  const auto stacked = whole_model(names.manifest, model->config, kShort);
  REQUIRE(stacked->graph);
  CHECK(stacked->ops().find("slice reshape") != std::string::npos);
  // Layers by the first dimension, then as a kernel.
  CHECK(disagreements(*stacked, R"(axes: [dp, fsdp, ep, tp, sp]
rules:
  - ["embedding$", [tp, [fsdp, sp]]]
  - ["layers/.*(q|k|v|gate|up)_proj/kernel$", [null, [fsdp, sp], tp]]
  - ["layers/.*(o|down)_proj/kernel$", [null, tp, [fsdp, sp]]]
  - ["lm_head/kernel$", [[fsdp, sp], tp]]
  - ["scale$", []]
)") == "");
}

TEST_CASE("dense decoders: fsdp and tp move what Megatron and FSDP move") {
  const auto model = tiny("llama");
  const auto run =
      testing::simulated(*model, "@llama", "fsdp=2,tp=2", ValueSource::Field);
  REQUIRE(run.simulation);
  CHECK(run.messages == "");
  // An all-reduce per block and one for the embedding; every weight gathered
  // where it is used.
  const auto count = [&](const std::string& words) {
    int found = 0;
    for (size_t at = run.moves.find(words); at != std::string::npos;
         at = run.moves.find(words, at + 1)) {
      ++found;
    }
    return found;
  };
  CHECK(count("all-reduce over tp") == 5);
  CHECK(count("(weight use)") == 16);
  CHECK(count("; ") == 20);
}

TEST_CASE("dense decoders: KV heads that tp does not divide are reported") {
  const auto run =
      testing::simulated(*tiny("llama"), "@llama", "tp=4", ValueSource::Field);
  REQUIRE(run.simulation);
  CHECK_FALSE(run.simulation->mismatch);
  CHECK(run.messages.find("SP203 warning `layers.0.attn.key` is not sharded "
                          "as requested: 2 is not divisible by tp=4") !=
        std::string::npos);
}

TEST_CASE("dense decoders: a window, a tied head and biases are in the graph") {
  CHECK(tiny("llama")->value("lm_head.weight"));
  const auto tied = tiny("llama", "tied");
  CHECK_FALSE(tied->value("lm_head.weight"));
  const auto& head = tied->graph->nodes.back();
  CHECK(tied->graph->values[head.operands[1]].name ==
        "model.embed_tokens.weight");
  CHECK_FALSE(tiny("llama")->value("layers.0.attn.output:product"));
  CHECK(tiny("llama", "biased")->value("layers.0.attn.output:product"));

  const auto windows = tiny("qwen2", "window");
  std::vector<double> sizes;
  for (const GraphNode& node : windows->graph->nodes) {
    if (node.op->name != "causal_mask") continue;
    sizes.push_back(number_of(node.attributes, "window", 0));
  }
  CHECK(sizes == std::vector<double>{3, 0});
}

TEST_CASE("dense decoders: outputs, probes and the first layers only") {
  auto [manifest, config] = tiny_model("qwen3");
  const auto whole = whole_model(manifest, config);
  CHECK(whole->description->outputs == std::vector<std::string>{"logits"});
  CHECK(whole->description->probes ==
        std::vector<std::string>{"layers.0.residual", "layers.1.residual",
                                 "logits"});
  ForwardPass pass{2, 4, 1, {}};
  const auto first = whole_model(manifest, config, pass);
  REQUIRE(first->graph);
  CHECK(first->value("layers.0.residual"));
  CHECK_FALSE(first->value("layers.1.residual"));
  const Value& logits = first->graph->values[first->value("logits")];
  CHECK(logits.shape == Shape{2, 4, 32});
  CHECK(logits.axes == std::vector<std::string>{"BATCH", "LENGTH", "VOCAB"});
}

TEST_CASE("dense decoders: a base model has no logits, which is said") {
  auto [manifest, config] = tiny_model("llama", "tied");
  config["architectures"] = {"LlamaModel"};
  const auto base = whole_model(manifest, config);
  REQUIRE(base->graph);
  CHECK(base->description->outputs ==
        std::vector<std::string>{"last_hidden_state"});
  CHECK(base->messages ==
        "SP009 note config.json:1:1 the model has no head: its output is "
        "`last_hidden_state`, "
        "not logits");
  // Nor has one whose class has a head that the checkpoint lacks.
  config["architectures"] = {"LlamaForCausalLM"};
  CHECK(whole_model(manifest, config)->description->outputs ==
        std::vector<std::string>{"logits"});
  config["tie_word_embeddings"] = false;
  CHECK(whole_model(manifest, config)->description->outputs ==
        std::vector<std::string>{"last_hidden_state"});
}

TEST_CASE("dense decoders: rope follows the config") {
  auto [manifest, config] = tiny_model("llama");
  config["rope_theta"] = 1e6;
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 1},
                            {"high_freq_factor", 4},
                            {"original_max_position_embeddings", 64}};
  const auto model = whole_model(manifest, config);
  REQUIRE(model->graph);
  int found = 0;
  for (const GraphNode& node : model->graph->nodes) {
    if (node.op->name != "rope") continue;
    ++found;
    CHECK(number_of(node.attributes, "theta", 0) == 1e6);
    CHECK(text_of(node.attributes, "scaling", "") == "llama3");
    CHECK(number_of(node.attributes, "factor", 0) == 8);
    CHECK(number_of(node.attributes, "original_positions", 0) == 64);
  }
  CHECK(found == 4);
}

TEST_CASE("mixtral: sharded is unsharded, experts apart or stacked") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto apart = whole_model(manifest, config, {4, 4, 1, {}});
  REQUIRE_MESSAGE(apart->graph, apart->messages);
  CHECK(disagreements(*apart, "@mixtral") == "");
  const auto names = testing::flax_names(manifest, Stacking::Experts);
  const auto stacked = whole_model(names.manifest, config, {4, 4, 1, {}});
  REQUIRE_MESSAGE(stacked->graph, stacked->messages);
  const auto run =
      testing::simulated(*stacked, "@mixtral", "ep=4", ValueSource::Random);
  REQUIRE(run.simulation);
  CHECK_FALSE(run.simulation->mismatch);
  CHECK(apart->ops().find("concatenate") != std::string::npos);
  CHECK(stacked->ops().find("concatenate") == std::string::npos);
}

TEST_CASE("mixtral: any scheme of names gives the same outputs") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto model = whole_model(manifest, config);
  REQUIRE(model->graph);
  for (const Stacking stacking :
       {Stacking::None, Stacking::Layers, Stacking::Experts,
        Stacking::LayersAndExperts}) {
    CHECK(testing::largest_difference(
              *model, testing::flax_names(manifest, stacking)) < 1e-5);
  }
}

TEST_CASE("mixtral: experts on devices of ep give parts of one sum") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto names = testing::flax_names(manifest, Stacking::Experts);
  const auto model = whole_model(names.manifest, config);
  const auto run =
      testing::simulated(*model, "@mixtral", "ep=2,tp=2", ValueSource::Field);
  REQUIRE(run.simulation);
  CHECK(run.moves.find(
            "all-reduce over (ep, tp) of layers.0.mlp.output (partial sum)") !=
        std::string::npos);
}

TEST_CASE("mixtral: shares of the chosen experts add up to one") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto model = whole_model(manifest, config);
  REQUIRE(model->graph);
  CHECK(model->value("layers.0.mlp.shares:sum"));
  // Mixtral's router does not look at `norm_topk_prob`.
  config["norm_topk_prob"] = false;
  CHECK(whole_model(manifest, config)->value("layers.0.mlp.shares:sum"));
  // Where the config does not say, it is the two that the class has.
  config.erase("num_experts_per_tok");
  CHECK(whole_model(manifest, config)->graph);
}

TEST_CASE("mixtral: tokens go to no more experts than there are") {
  auto [manifest, config] = tiny_model("mixtral");
  config["num_experts_per_tok"] = 5;
  CHECK(whole_model(manifest, config)
            ->messages.find(
                "experts per token must be 1 to the number of experts") !=
        std::string::npos);
}

// As @qwen3_moe, but with packed gate and up whole on every device of tp.
constexpr const char* kFused = R"(axes: [dp, fsdp, ep, tp, sp]
rules:
  - ["experts.gate_up_proj$", [ep, null, [fsdp, sp]]]
  - ["experts.down_proj$", [ep, [fsdp, sp], tp]]
  - ["(embed_tokens|lm_head).weight$", [tp, [fsdp, sp]]]
  - ["(q|k|v)_proj.weight$", [tp, [fsdp, sp]]]
  - ["o_proj.weight$", [[fsdp, sp], tp]]
  - [".*", []]
)";

TEST_CASE("qwen3_moe: sharded is unsharded, some layers dense, experts fused") {
  auto [manifest, config] = tiny_model("qwen3_moe", "some-dense");
  const auto model = whole_model(manifest, config, {2, 4, {}, {}});
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK_FALSE(model->value("layers.0.mlp.router"));
  CHECK(model->value("layers.1.mlp.router"));
  CHECK(disagreements(*model, "@qwen3_moe") == "");

  auto [fused, fused_config] = tiny_model("qwen3_moe", "fused");
  const auto two = whole_model(fused, fused_config, {2, 4, 1, {}});
  REQUIRE_MESSAGE(two->graph, two->messages);
  const auto run =
      testing::simulated(*two, kFused, "ep=2,tp=2", ValueSource::Field);
  REQUIRE(run.simulation);
  CHECK_FALSE(run.simulation->mismatch);
}

TEST_CASE("qwen3_moe: any scheme of names gives the same outputs") {
  auto [manifest, config] = tiny_model("qwen3_moe");
  const auto model = whole_model(manifest, config);
  REQUIRE_MESSAGE(model->graph, model->messages);
  for (const Stacking stacking :
       {Stacking::None, Stacking::Experts, Stacking::LayersAndExperts}) {
    CHECK(testing::largest_difference(
              *model, testing::flax_names(manifest, stacking)) < 1e-5);
  }
}

TEST_CASE("qwen3_moe: experts where the config says, else where names do") {
  auto [manifest, config] = tiny_model("qwen3_moe", "some-dense");
  const auto recognised = whole_model(manifest, {});
  REQUIRE(recognised->model);
  // Which experts see a token needs a config; here there are fewer than the
  // class would choose.
  ForwardDefinition two = *recognised->model;
  two.known_values["experts_per_token"] = ConfigValue::of(int64_t{2});
  const auto model = whole_model_of(manifest, std::move(two));
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK_FALSE(model->value("layers.0.mlp.router"));
  CHECK(model->value("layers.1.mlp.router"));

  config.erase("mlp_only_layers");
  const auto wrong = whole_model(manifest, config);
  CHECK_FALSE(wrong->graph);
  CHECK(wrong->messages.find("SP015") == 0);
}

TEST_CASE("qwen3_moe: shares are as chosen unless norm_topk_prob") {
  auto [manifest, config] = tiny_model("qwen3_moe");
  CHECK_FALSE(whole_model(manifest, config)->value("layers.0.mlp.shares:sum"));
  config["norm_topk_prob"] = true;
  CHECK(whole_model(manifest, config)->value("layers.0.mlp.shares:sum"));
}

TEST_CASE("gpt2: sharded is unsharded") {
  auto [manifest, config] = tiny_model("gpt2");
  const auto model = whole_model(manifest, config, {2, 4, 1, {}});
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK(testing::disagreements(*model, "@gpt2") == "");
}

TEST_CASE("gpt2: Conv1D is the other way round in either scheme of names") {
  auto [manifest, config] = tiny_model("gpt2");
  const auto model = whole_model(manifest, config);
  REQUIRE(model->graph);
  for (const Stacking stacking : {Stacking::None, Stacking::Layers}) {
    CHECK(testing::largest_difference(
              *model, testing::flax_names(manifest, stacking)) < 1e-5);
  }
}

TEST_CASE("gpt2: without the prefix of its modules") {
  auto [manifest, config] = tiny_model("gpt2");
  Manifest bare;
  for (size_t i = 0; i < manifest.size(); ++i) {
    std::string name(manifest.name(i));
    const std::string prefix = "transformer.";
    if (name.rfind(prefix, 0) == 0) name.erase(0, prefix.size());
    REQUIRE(bare.add(name, manifest.type(i), {}));
  }
  bare.facts = manifest.facts;
  const auto model = whole_model(bare, config);
  CHECK_MESSAGE(model->graph, model->messages);
}

TEST_CASE("gpt2: no more tokens than positions") {
  auto [manifest, config] = tiny_model("gpt2");
  CHECK(whole_model(manifest, config, {2, 12, {}, {}})->graph);
  const auto model = whole_model(manifest, config, {2, 13, {}, {}});
  CHECK(model->messages ==
        "SP009 config.json:1:1 the model has 12 positions, too few for 13 "
        "tokens");
}

TEST_CASE("gpt2: a head of its own") {
  auto [manifest, config] = tiny_model("gpt2");
  config["tie_word_embeddings"] = false;
  REQUIRE(manifest.add("lm_head.weight", {DType::F32, {32, 16}}, {}));
  const auto model = whole_model(manifest, config);
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK(model->value("lm_head.weight"));
  CHECK(model->description->outputs == std::vector<std::string>{"logits"});
}

TEST_CASE("bert: sharded is unsharded, with the pooler or the word head") {
  for (const std::string variant : {"", "head"}) {
    auto [manifest, config] = tiny_model("bert", variant);
    const auto model = whole_model(manifest, config, {2, 4, 1, {}});
    REQUIRE_MESSAGE(model->graph, model->messages);
    CHECK(testing::disagreements(*model, "@bert") == "");
  }
}

TEST_CASE("bert: any scheme of names gives the same outputs") {
  for (const std::string variant : {"", "head"}) {
    auto [manifest, config] = tiny_model("bert", variant);
    const auto model = whole_model(manifest, config);
    REQUIRE(model->graph);
    for (const Stacking stacking : {Stacking::None, Stacking::Layers}) {
      CHECK(testing::largest_difference(
                *model, testing::flax_names(manifest, stacking)) < 1e-5);
    }
  }
}

TEST_CASE("bert: outputs are what transformers calls them") {
  auto [manifest, config] = tiny_model("bert");
  CHECK(whole_model(manifest, config)->description->outputs ==
        std::vector<std::string>{"last_hidden_state", "pooler_output"});
  auto [with_head, head_config] = tiny_model("bert", "head");
  CHECK(whole_model(with_head, head_config)->description->outputs ==
        std::vector<std::string>{"logits"});
}

TEST_CASE("bert: every token sees all, and there are no more than positions") {
  auto [manifest, config] = tiny_model("bert");
  const auto model = whole_model(manifest, config);
  CHECK(model->ops().find("causal_mask") == std::string::npos);
  CHECK(whole_model(manifest, config, {2, 13, {}, {}})->messages ==
        "SP009 config.json:1:1 the model has 12 positions, too few for 13 "
        "tokens");
}

// transformers 4 writes the bias of an own matrix under the first name only,
// transformers 5 under both.
TEST_CASE("bert: a word head of its own") {
  auto [manifest, config] = tiny_model("bert", "head");
  config["tie_word_embeddings"] = false;
  REQUIRE(manifest.add("cls.predictions.decoder.weight", {DType::F32, {32, 16}},
                       {}));
  const auto four = whole_model(manifest, config);
  REQUIRE_MESSAGE(four->graph, four->messages);
  CHECK(four->value("cls.predictions.decoder.weight"));
  CHECK(four->value("cls.predictions.bias"));
  REQUIRE(manifest.add("cls.predictions.decoder.bias", {DType::F32, {32}}, {}));
  const auto five = whole_model(manifest, config);
  REQUIRE_MESSAGE(five->graph, five->messages);
  CHECK(five->value("cls.predictions.decoder.bias"));
  CHECK_FALSE(five->value("cls.predictions.bias"));
}

TEST_CASE("bert: as it was trained first, with both heads") {
  auto [manifest, config] = tiny_model("bert", "head");
  config["architectures"] = {"BertForPreTraining"};
  for (const auto& [name, shape] :
       {std::pair<const char*, Shape>{"bert.pooler.dense.weight", {16, 16}},
        {"bert.pooler.dense.bias", {16}},
        {"cls.seq_relationship.weight", {2, 16}},
        {"cls.seq_relationship.bias", {2}}}) {
    REQUIRE(manifest.add(name, {DType::F32, shape}, {}));
  }
  const auto model = whole_model(manifest, config);
  REQUIRE_MESSAGE(model->graph, model->messages);
  CHECK(model->description->outputs ==
        std::vector<std::string>{"logits", "seq_relationship_logits"});
  CHECK(model->description->parameters.size() == manifest.size());
  CHECK(whole_model(manifest, {})->messages.find("SP016") == std::string::npos);
}

}  // namespace

}  // namespace shardplan
