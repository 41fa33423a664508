// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "graph/families/families.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::disagreements;
using testing::Stacking;
using testing::tiny_model;
using testing::whole_model;

// As many tokens and layers as it takes for what depends on positions.
constexpr ForwardPass kShort = {2, 4, 1, {}};

std::unique_ptr<testing::WholeModel> tiny(const std::string& family,
                                          const std::string& variant = "",
                                          ForwardPass pass = {4, 8, {}, {}}) {
  auto [manifest, config] = tiny_model(family, variant);
  auto model = whole_model(std::move(manifest), std::move(config), pass);
  REQUIRE_MESSAGE(model->graph, model->messages);
  return model;
}

TEST_CASE("dense decoders: sharded is unsharded") {
  CHECK(disagreements(*tiny("llama", "", kShort), "@llama") == "");
  CHECK(disagreements(*tiny("mistral", "window", kShort), "@mistral") == "");
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
  CHECK(run.messages.find("SP203 warning `layers.0.attn.key` is not laid out "
                          "as asked: 2 is not divisible by tp=4") !=
        std::string::npos);
}

TEST_CASE("dense decoders: a window, a tied head and biases are in the graph") {
  CHECK(tiny("llama")->value("lm_head.weight") >= 0);
  const auto tied = tiny("llama", "tied");
  CHECK(tied->value("lm_head.weight") == -1);
  const auto& head = tied->graph->nodes.back();
  CHECK(tied->graph->values[static_cast<size_t>(head.operands[1])].name ==
        "model.embed_tokens.weight");
  CHECK(tiny("llama")->value("layers.0.attn.output:product") == -1);
  CHECK(tiny("llama", "biased")->value("layers.0.attn.output:product") >= 0);

  const auto windows = tiny("mistral", "window");
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
  CHECK(first->value("layers.0.residual") >= 0);
  CHECK(first->value("layers.1.residual") == -1);
  const Value& logits =
      first->graph->values[static_cast<size_t>(first->value("logits"))];
  CHECK(logits.shape == Shape{2, 4, 32});
  CHECK(logits.axes == std::vector<std::string>{"BATCH", "LENGTH", "VOCAB"});
}

TEST_CASE("dense decoders: rope follows the config") {
  auto [manifest, config] = tiny_model("llama");
  config.rope = {1e6, "llama3", 8, 1, 4, 64, {}};
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

}  // namespace
}  // namespace shardplan
