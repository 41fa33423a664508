// SPDX-License-Identifier: Apache-2.0
#include "graph/decoder.h"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/build.h"
#include "graph/graph.h"
#include "sim/values.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::tiny_model;
using testing::whole_model;

TEST_CASE("decoder: every parameter of the layers that are run is read") {
  for (const std::string variant : {"", "biased"}) {
    auto [manifest, config] = tiny_model("qwen3", variant);
    const auto model = whole_model(manifest, config);
    REQUIRE_MESSAGE(model->graph, model->messages);
    CHECK(model->description->parameters.size() == manifest.size());
    const auto first = whole_model(manifest, config, {2, 4, 1, {}});
    REQUIRE(first->graph);
    for (const DescribedValue& parameter : first->description->parameters) {
      CHECK(parameter.name.find("layers.1.") == std::string::npos);
    }
  }
}

TEST_CASE("decoder: a tied head is the embedding, also where both are stored") {
  auto [manifest, config] = tiny_model("llama");
  CHECK(whole_model(manifest, config)->value("lm_head.weight") >= 0);
  config.tied = true;
  CHECK(whole_model(manifest, config)->value("lm_head.weight") == -1);
}

TEST_CASE("decoder: values have the names that rules of activations are for") {
  auto [manifest, config] = tiny_model("llama");
  const auto model = whole_model(manifest, config);
  for (const char* name :
       {"input_ids", "embedded", "layers.1.attn.query", "layers.1.attn.key",
        "layers.1.attn.value", "layers.1.attn.output", "layers.1.attn.residual",
        "layers.1.mlp.hidden", "layers.1.mlp.output", "layers.1.residual",
        "norm", "logits"}) {
    CAPTURE(name);
    CHECK(model->value(name) >= 0);
  }
  const Value& hidden =
      model->graph
          ->values[static_cast<size_t>(model->value("layers.0.mlp.hidden"))];
  CHECK(hidden.axes == Labels{"BATCH", "LENGTH", "MLP_INTERMEDIATE"});
}

TEST_CASE("decoder: an attention that is not known is refused") {
  auto [manifest, config] = tiny_model("llama");
  config.windows = {0, kUnknownWindow};
  CHECK(whole_model(manifest, config)->messages ==
        "SP009 what layer 1 attends to is not known");
}

TEST_CASE("decoder: a layer that the checkpoint lacks is reported") {
  auto [manifest, config] = tiny_model("llama");
  config.layers = 3;
  CHECK(whole_model(manifest, config)->messages ==
        "SP015 the forward pass of a `llama` needs 9 parameters that the model "
        "does not have");
  // Of those that are not run nothing is asked.
  CHECK(whole_model(manifest, config, {2, 4, 2, {}})->graph);
}

TEST_CASE("decoder: a matrix of another shape is reported") {
  auto [manifest, config] = tiny_model("llama");
  config.intermediate = 28;
  const auto model = whole_model(manifest, config);
  CHECK_FALSE(model->graph);
  CHECK(model->messages.find("SP015 `model.layers.0.mlp.gate_proj.weight` has "
                             "another shape in the model") == 0);
}

// Attention over parameters q [2, 3, heads * dim], k and v.
struct Attending {
  Attending(HeadSizes head_sizes, bool causal, int64_t window)
      : sizes(head_sizes) {
    const int64_t width = sizes.heads * sizes.head_dim;
    const int64_t kv_width = sizes.kv_heads * sizes.head_dim;
    for (const auto& [name, last] :
         {std::pair{"q", width}, {"k", kv_width}, {"v", kv_width}}) {
      REQUIRE(manifest.add(name, {DType::F32, {2, 3, last}}, {}));
    }
    const ParameterNames names(manifest);
    const FamilyInput input{manifest, names, config, {2, 3, {}, {}}};
    ModelWriter out(input, config, "attention", diags);
    const auto query =
        query_heads(out, sizes, out.parameter("q", {2, 3, width}), "query",
                    query_labels(sizes));
    const auto key = key_heads(out, sizes, out.parameter("k", {2, 3, kv_width}),
                               "key", key_labels(sizes));
    const auto value =
        key_heads(out, sizes, out.parameter("v", {2, 3, kv_width}), "value");
    out.output(attend(out, sizes, {"attn", query, key, value, causal, window}));
    const auto description = out.finish();
    REQUIRE(description);
    graph = build_graph(*description, manifest, diags);
    REQUIRE_MESSAGE(graph, testing::messages(diags));
    given = *make_values(*graph, ValueSource::Random, 1, diags);
  }

  std::vector<double> run() const {
    const auto all = evaluate(*graph, given, Arithmetic::F32);
    return values_of(all[static_cast<size_t>(graph->outputs.front())]);
  }

  // The same, number by number.
  std::vector<double> definition(bool causal, int64_t window) const {
    const auto q = values_of(given[0]);
    const auto k = values_of(given[1]);
    const auto v = values_of(given[2]);
    const int64_t dim = sizes.head_dim;
    const auto at = [&](const std::vector<double>& x, int64_t heads, int64_t b,
                        int64_t s, int64_t h, int64_t d) {
      return x[static_cast<size_t>(((b * 3 + s) * heads + h) * dim + d)];
    };
    std::vector<double> result;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t s = 0; s < 3; ++s) {
        for (int64_t h = 0; h < sizes.heads; ++h) {
          const int64_t kv = h / sizes.groups();
          std::vector<double> weights(3);
          double total = 0;
          for (int64_t t = 0; t < 3; ++t) {
            if (causal && (t > s || (window > 0 && s - t >= window))) continue;
            double dot = 0;
            for (int64_t d = 0; d < dim; ++d) {
              dot += at(q, sizes.heads, b, s, h, d) *
                     at(k, sizes.kv_heads, b, t, kv, d);
            }
            weights[static_cast<size_t>(t)] =
                std::exp(dot / std::sqrt(static_cast<double>(dim)));
            total += weights[static_cast<size_t>(t)];
          }
          for (int64_t d = 0; d < dim; ++d) {
            double sum = 0;
            for (int64_t t = 0; t < 3; ++t) {
              sum += weights[static_cast<size_t>(t)] *
                     at(v, sizes.kv_heads, b, t, kv, d);
            }
            result.push_back(sum / total);
          }
        }
      }
    }
    return result;
  }

  HeadSizes sizes;
  Manifest manifest;
  ModelConfig config;
  Diagnostics diags;
  std::optional<Graph> graph;
  std::vector<Tensor> given;
};

TEST_CASE("attention: is its definition, grouped or not, masked or not") {
  for (const HeadSizes sizes :
       {HeadSizes{4, 4, 2}, HeadSizes{4, 2, 2}, HeadSizes{6, 1, 2}}) {
    for (const auto& [causal, window] :
         {std::pair{false, 0}, {true, 0}, {true, 2}}) {
      const Attending attending(sizes, causal, window);
      const auto wanted = attending.definition(causal, window);
      const auto found = attending.run();
      REQUIRE(found.size() == wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("attention: labels of heads, which one KV head does not share out") {
  CHECK(query_labels({4, 4, 2}) ==
        Labels{"BATCH", "QUERY_LENGTH", "HEAD", "HEAD_DIM"});
  CHECK(query_labels({4, 2, 2}) ==
        Labels{"BATCH", "QUERY_LENGTH", "KV_HEAD", "", "HEAD_DIM"});
  CHECK(query_labels({4, 1, 2}) ==
        Labels{"BATCH", "QUERY_LENGTH", "", "HEAD", "HEAD_DIM"});
  CHECK(key_labels({4, 1, 2}) ==
        Labels{"BATCH", "KV_LENGTH", "", "KV_HEAD_DIM"});
}

TEST_CASE("experts: capacity bounds the tokens that an expert has room for") {
  auto [manifest, config] = tiny_model("qwen3_moe");
  const auto roomy = whole_model(manifest, config, {2, 8, 1, {}});
  const auto narrow = whole_model(manifest, config, {2, 8, 1, 3});
  const auto shape = [](const testing::WholeModel& model) {
    const int value = model.value("layers.0.mlp.dispatched");
    return model.graph->values[static_cast<size_t>(value)].shape;
  };
  REQUIRE(roomy->graph);
  REQUIRE(narrow->graph);
  CHECK(shape(*roomy) == Shape{4, 2, 8, 16});
  CHECK(shape(*narrow) == Shape{4, 2, 3, 16});
}

// Only what the layout of weights changes in the graph may change: outputs are
// those of the experts by themselves.
TEST_CASE("experts: gate and up in one matrix give the same outputs") {
  const auto model = tiny_model("qwen3_moe");
  const Manifest& manifest = model.manifest;
  const auto apart = whole_model(manifest, model.config);
  auto [fused_manifest, fused_config] = tiny_model("qwen3_moe", "fused");
  const auto fused = whole_model(fused_manifest, fused_config);
  REQUIRE(apart->graph);
  REQUIRE_MESSAGE(fused->graph, fused->messages);
  const std::vector<Tensor> parameters = testing::random_parameters(manifest);
  const auto numbers_of = [&](const std::string& name) {
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest.name(i) == name) return values_of(parameters[i]);
    }
    return std::vector<double>();
  };
  std::vector<Tensor> packed;
  for (size_t i = 0; i < fused_manifest.size(); ++i) {
    const std::string name(fused_manifest.name(i));
    std::vector<double> numbers = numbers_of(name);
    const size_t at = name.find(".experts.");
    if (at != std::string::npos) {
      const std::string stem = name.substr(0, at + 9);
      const bool both = name.find("gate_up") != std::string::npos;
      const std::vector<std::string> kernels =
          both ? std::vector<std::string>{"gate_proj", "up_proj"}
               : std::vector<std::string>{"down_proj"};
      for (int e = 0; e < 4; ++e) {
        for (const std::string& kernel : kernels) {
          const auto own =
              numbers_of(stem + std::to_string(e) + "." + kernel + ".weight");
          numbers.insert(numbers.end(), own.begin(), own.end());
        }
      }
    }
    packed.push_back(
        make_tensor(Element::F32, fused_manifest.type(i).shape, numbers));
  }
  const auto wanted = testing::outputs_of(*apart, parameters);
  const auto found = testing::outputs_of(*fused, packed);
  REQUIRE(found.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-4).scale(1));
  }
}

TEST_CASE("experts: weights of one expert are used where they are") {
  auto [manifest, config] = tiny_model("mixtral");
  const auto model = whole_model(manifest, config, {2, 4, 1, {}});
  REQUIRE(model->graph);
  // No operation but a product reads a weight of an expert.
  for (const GraphNode& node : model->graph->nodes) {
    for (const int operand : node.operands) {
      const Value& value = model->graph->values[static_cast<size_t>(operand)];
      if (value.parameter.find("experts") == std::string::npos) continue;
      CHECK(node.op->name == "einsum");
    }
  }
}

}  // namespace

}  // namespace shardplan
