// SPDX-License-Identifier: Apache-2.0
#include "graph/experts.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::tiny_model;
using testing::whole_model;

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
