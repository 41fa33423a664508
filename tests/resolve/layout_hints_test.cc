// SPDX-License-Identifier: Apache-2.0
#include "resolve/layout_hints.h"

#include <doctest/doctest.h>

#include "tests/support/builders.h"

namespace shardplan {
namespace {

using testing::manifest;

TEST_CASE("a stack is a name for layers that no number follows") {
  CHECK(stack_of("params/decoder/layers/mlp/wi/kernel") ==
        "params/decoder/layers");
  CHECK(stack_of("layers.mlp.w") == "layers");
  CHECK(stack_of("decoder/moe_layers/mlp/w") == "decoder/moe_layers");
  CHECK(stack_of("h/attn/w") == "h");
  CHECK(stack_of("model.layers.0.mlp.w").empty());
  CHECK(stack_of("model.layers.12.mlp.blocks.w").empty());
  CHECK(stack_of("model.layers_0.mlp.w").empty());
  CHECK(stack_of("model.norm.weight").empty());
  CHECK(stack_of("layers").empty());
  CHECK(stack_of("").empty());
}

StackEvidence evidence(const std::vector<std::string>& types) {
  Manifest model;
  for (size_t i = 0; i < types.size(); ++i) {
    REQUIRE(model.add("layers/w" + std::string(i, 'x'), testing::type(types[i]),
                      {}));
  }
  return layout_hints(model).stacks.at("layers");
}

std::string told(const std::vector<std::string>& types,
                 std::optional<int64_t> layers = std::nullopt) {
  const auto stack = stacked_layers(evidence(types), layers);
  if (!stack) return "";
  return std::to_string(stack->layers) + " along " + std::to_string(stack->dim);
}

TEST_CASE("layers are told by what all tensors of a stack have in common") {
  CHECK(told({"f32[4, 8]", "f32[4, 8, 16]", "f32[4, 16, 8]"}) == "4 along 0");
  CHECK(told({"f32[8, 4]", "f32[8, 4, 16]", "f32[16, 4, 8]"}) == "4 along 1");
  // Too few, of one rank, or with a vector: separate layers may look so.
  CHECK(told({"f32[4, 8]", "f32[4, 8, 16]"}).empty());
  CHECK(told({"f32[4, 8]", "f32[4, 16]", "f32[4, 32]"}).empty());
  CHECK(told({"f32[4]", "f32[4, 8]", "f32[4, 8, 16]"}).empty());
  // One differs.
  CHECK(told({"f32[4, 8]", "f32[4, 8, 16]", "f32[5, 16, 8]"}).empty());
  // Either may be the stack.
  CHECK(told({"f32[4, 8]", "f32[4, 8, 16]", "f32[4, 8, 32]"}).empty());
}

TEST_CASE("the number of layers that the facts give is enough by itself") {
  CHECK(told({"f32[4, 8, 16]"}, 4) == "4 along 0");
  CHECK(told({"f32[8, 4, 16]"}, 4) == "4 along 1");
  CHECK(told({"f32[4]"}, 4) == "4 along 0");
  CHECK(told({"f32[4, 4, 16]"}, 4).empty());
  CHECK(told({"f32[3, 5]"}, 4).empty());
  CHECK(told({"f32[]"}, 4).empty());
  CHECK(told({"f32[1, 5]"}, 1).empty());
  CHECK(told({"f32[4, 8]", "f32[4, 8, 16]", "f32[4, 8, 32]"}, 8) ==
        "8 along 1");
}

TEST_CASE("down projections tell what their siblings give") {
  const LayoutHints hints =
      layout_hints(manifest({{"layers.0.mlp.down_proj.weight", "f32[8, 32]"},
                             {"layers.1.mlp.down_proj.weight", "f32[8, 64]"},
                             {"layers/2/mlp/down_proj/kernel", "f32[16, 8]"},
                             {"layers.0.mlp.down_proj.bias", "f32[8]"},
                             {"mlp.experts.down_proj", "f32[4, 32, 8]"},
                             {"mlp.experts.3.down_proj.weight", "f32[8, 2]"}}));
  CHECK(hints.down_inputs.at("down_proj") == std::set<int64_t>{2, 16, 32, 64});
  CHECK(hints.expert_downs == std::set<std::pair<int64_t, int64_t>>{{32, 8}});
  CHECK(!hints.alternating_experts);
  CHECK(down_module("gate_up_proj") == "down_proj");
  CHECK(down_module("up_proj").empty());
}

}  // namespace
}  // namespace shardplan
