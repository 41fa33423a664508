// SPDX-License-Identifier: Apache-2.0
#include "model/forward/forward.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "graph/build.h"
#include "graph/graph.h"
#include "model/architectures.h"
#include "model/forward/recognise.h"
#include "sim/values.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

using testing::changed;
using testing::Json;
using testing::tiny_model;
using testing::whole_model;
using testing::whole_model_of;

TEST_CASE("forward: every parameter of the layers that are run is read") {
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

TEST_CASE("forward: a tied head is the embedding, also where both are stored") {
  auto [manifest, config] = tiny_model("llama");
  CHECK(whole_model(manifest, config)->value("lm_head.weight"));
  config["tie_word_embeddings"] = true;
  CHECK_FALSE(whole_model(manifest, config)->value("lm_head.weight"));
}

TEST_CASE("forward: values have the names that rules of activations are for") {
  auto [manifest, config] = tiny_model("llama");
  const auto model = whole_model(manifest, config);
  for (const char* name :
       {"input_ids", "embedded", "layers.1.attn.query", "layers.1.attn.key",
        "layers.1.attn.value", "layers.1.attn.output", "layers.1.attn.residual",
        "layers.1.mlp.hidden", "layers.1.mlp.output", "layers.1.residual",
        "norm", "logits"}) {
    CAPTURE(name);
    CHECK(model->value(name));
  }
  const Value& hidden =
      model->graph->values[model->value("layers.0.mlp.hidden")];
  CHECK(hidden.axes == ValueLabels{"BATCH", "LENGTH", "MLP_INTERMEDIATE"});
}

TEST_CASE("forward: an attention that is not known is refused") {
  auto [manifest, config] = tiny_model("qwen2");
  config["layer_types"] = {"full_attention", "chunked_attention"};
  CHECK(whole_model(manifest, config)->messages ==
        "SP009 config.json:1:1 a layer's attention type is not supported");
}

TEST_CASE("forward: a layer that the checkpoint lacks is reported") {
  auto [manifest, config] = tiny_model("llama");
  config["num_hidden_layers"] = 3;
  CHECK(whole_model(manifest, config)->messages ==
        "SP015 config.json:1:1 the forward pass of a `llama` needs 9 "
        "parameters that the model "
        "does not have");
  // Of those that are not run nothing is asked.
  CHECK(whole_model(manifest, config, {2, 4, 2, {}})->graph);
}

TEST_CASE("forward: a matrix of another shape is reported") {
  auto [manifest, config] = tiny_model("llama");
  config["intermediate_size"] = 28;
  const auto model = whole_model(manifest, config);
  CHECK_FALSE(model->graph);
  CHECK(model->messages.find("SP015 `model.layers.0.mlp.gate_proj.weight` has "
                             "a different shape in the model") == 0);
}

// An architecture that is attention alone, over what three embeddings say.
constexpr const char* kAttending = R"(architecture: attending
computes: true
sizes: {vocab: vocab_size, heads: heads, kv_heads: kv_heads, head_dim: head_dim}
counts: {layers: {is: 1}}
forward:
  flags: {causal: causal}
  sizes: {window: {key: window, least: 0}}
blocks:
  body:
    steps:
      - {embedding: q, rows: vocab, columns: heads * head_dim}
      - {embedding: k, rows: vocab, columns: kv_heads * head_dim}
      - {embedding: v, rows: vocab, columns: kv_heads * head_dim}
    forward:
      takes: input_ids
      gives: joined
      steps:
        - query = query_heads(q(input_ids))
        - key = key_heads(k(input_ids)) as keys
        - value = key_heads(v(input_ids)) as keys
        - joined = attend(query, key, value, causal = causal, window = window)
classes:
  Attending: [{body: ""}]
)";

struct Heads {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

// 2 sequences of 3 tokens.
struct Attending {
  Attending(Heads given_sizes, bool causal, int64_t window)
      : sizes(given_sizes) {
    const int64_t width = sizes.heads * sizes.head_dim;
    const int64_t kv_width = sizes.kv_heads * sizes.head_dim;
    for (const auto& [name, last] : {std::pair{"q.weight", width},
                                     {"k.weight", kv_width},
                                     {"v.weight", kv_width}}) {
      REQUIRE(manifest.add(name, {DType::F32, {5, last}}, {}));
    }
    auto architecture = read_user_architecture(
        std::make_shared<const SourceFile>("attending.yaml", kAttending),
        [](std::string_view) { return nullptr; }, diags);
    REQUIRE_MESSAGE(architecture, testing::messages(diags));
    auto model =
        recognise_model(manifest,
                        testing::parsed_config({{"vocab_size", 5},
                                                {"heads", sizes.heads},
                                                {"kv_heads", sizes.kv_heads},
                                                {"head_dim", sizes.head_dim},
                                                {"causal", causal},
                                                {"window", window}}),
                        std::move(architecture), diags);
    REQUIRE_MESSAGE(model, testing::messages(diags));
    whole = whole_model_of(manifest, *std::move(model), {2, 3, {}, {}});
    REQUIRE_MESSAGE(whole->graph, whole->messages);
    given = *make_values(*whole->graph, ValueSource::Random, 1, diags);
  }

  std::vector<double> run() const {
    const auto all = evaluate(*whole->graph, given, Arithmetic::F32);
    return values_of(all[whole->graph->outputs.front()]);
  }

  // The rows of an embedding for all tokens.
  std::vector<double> looked_up(const char* table, int64_t width) const {
    const auto ids = values_of(given[whole->value("input_ids")]);
    const auto rows = values_of(given[whole->value(table)]);
    std::vector<double> found;
    for (const double id : ids) {
      const auto begin = rows.begin() + static_cast<ptrdiff_t>(id) * width;
      found.insert(found.end(), begin, begin + width);
    }
    return found;
  }

  // The same, number by number.
  std::vector<double> definition(bool causal, int64_t window) const {
    const int64_t dim = sizes.head_dim;
    const auto q = looked_up("q.weight", sizes.heads * dim);
    const auto k = looked_up("k.weight", sizes.kv_heads * dim);
    const auto v = looked_up("v.weight", sizes.kv_heads * dim);
    const auto at = [&](const std::vector<double>& x, int64_t heads, int64_t b,
                        int64_t s, int64_t h, int64_t d) {
      return x[static_cast<size_t>(((b * 3 + s) * heads + h) * dim + d)];
    };
    std::vector<double> result;
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t s = 0; s < 3; ++s) {
        for (int64_t h = 0; h < sizes.heads; ++h) {
          const int64_t kv = h / (sizes.heads / sizes.kv_heads);
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

  Heads sizes;
  Manifest manifest;
  Diagnostics diags;
  std::unique_ptr<testing::WholeModel> whole;
  PerValue<Tensor> given;
};

TEST_CASE("attention: is its definition, grouped or not, masked or not") {
  for (const Heads sizes : {Heads{4, 4, 2}, Heads{4, 2, 2}, Heads{6, 1, 2}}) {
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
  const auto labels = [](const Json& config, const char* value) {
    const auto made = testing::synthesize(config);
    const auto model = whole_model(made->good(), config);
    REQUIRE_MESSAGE(model->graph, model->messages);
    return model->graph->values[model->value(value)].axes;
  };
  const Json grouped = tiny_model("llama").config;
  const Json all = changed(grouped, {{"num_key_value_heads", 4}});
  const Json one = changed(grouped, {{"num_key_value_heads", 1}});
  const char* const query = "layers.0.attn.query";
  const char* const key = "layers.0.attn.key";
  CHECK(labels(all, query) ==
        ValueLabels{"BATCH", "QUERY_LENGTH", "HEAD", "HEAD_DIM"});
  CHECK(labels(grouped, query) ==
        ValueLabels{"BATCH", "QUERY_LENGTH", "KV_HEAD", "", "HEAD_DIM"});
  CHECK(labels(grouped, key) ==
        ValueLabels{"BATCH", "KV_LENGTH", "KV_HEAD", "KV_HEAD_DIM"});
  CHECK(labels(one, query) ==
        ValueLabels{"BATCH", "QUERY_LENGTH", "", "HEAD", "HEAD_DIM"});
  CHECK(labels(one, key) ==
        ValueLabels{"BATCH", "KV_LENGTH", "", "KV_HEAD_DIM"});
}

TEST_CASE("experts: capacity bounds the tokens that an expert has room for") {
  auto [manifest, config] = tiny_model("qwen3_moe");
  const auto roomy = whole_model(manifest, config, {2, 8, 1, {}});
  const auto narrow = whole_model(manifest, config, {2, 8, 1, 3});
  const auto shape = [](const testing::WholeModel& model) {
    const ValueId value = model.value("layers.0.mlp.dispatched");
    return model.graph->values[value].shape;
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
    for (const ValueId operand : node.operands) {
      const Value& value = model->graph->values[operand];
      if (value.parameter.find("experts") == std::string::npos) continue;
      CHECK(node.op->name == "einsum");
    }
  }
}

}  // namespace

}  // namespace shardplan
