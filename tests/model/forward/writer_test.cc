// SPDX-License-Identifier: Apache-2.0
#include "model/forward/writer.h"

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "graph/build.h"
#include "tests/support/builders.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

struct Writing {
  explicit Writing(Manifest tensors) : manifest(std::move(tensors)) {
    out.set_layers(3);
  }

  // What finish gives, built; the messages where that is nothing.
  std::string finished() {
    auto description = out.finish();
    if (description) graph = build_graph(*description, manifest, diags);
    return testing::messages(diags);
  }

  Manifest manifest;
  ForwardInput input{manifest, {2, 4, {}, {}}};
  Diagnostics diags;
  ForwardWriter out{input, "tiny", {}, {}, diags};
  std::optional<Graph> graph;
};

std::string equations(const Graph& graph) {
  std::string text;
  for (const GraphNode& node : graph.nodes) {
    if (node.op->name != "einsum") continue;
    text += std::string(text_of(node.attributes, "equation", "")) + " ";
  }
  return text;
}

TEST_CASE("forward writer: linear layers in the layout that is stored") {
  Writing w(testing::manifest({{"embed_tokens.weight", "f32[8, 4]"},
                               {"torch.weight", "f32[6, 4]"},
                               {"torch.bias", "f32[6]"},
                               {"flax/kernel", "f32[6, 4]"},
                               {"conv.weight", "f32[4, 6]"},
                               {"conv2/kernel", "f32[4, 6]"}}));
  const auto ids = w.out.input("ids", {2, 4}, {"BATCH", "LENGTH"}, 8);
  std::string x = w.out.op(
      "embedding", {w.out.parameter("embed_tokens.weight", {8, 4}), ids}, "x");
  x = w.out.linear({x, "torch", 4, 6, "a", {"BATCH", "LENGTH", "VOCAB"}, true});
  x = w.out.linear({x, "flax", 6, 4, "b"});
  x = w.out.linear({x, "conv", 4, 6, "c", {}, false, true});
  x = w.out.linear({x, "conv2", 6, 4, "d", {}, false, true});
  w.out.output(x);
  CHECK(w.finished() == "");
  REQUIRE(w.graph);
  CHECK(equations(*w.graph) ==
        "bsi,oi->bso bsi,io->bso bsi,io->bso bsi,oi->bso ");
  // A bias is added to a product that is labelled as the result.
  const Value& product = w.graph->values[w.graph->nodes[NodeId(1)].result];
  CHECK(product.name == "a:product");
  CHECK(product.axes == std::vector<std::string>{"BATCH", "LENGTH", "VOCAB"});
  CHECK(w.graph->probes == w.graph->outputs);
}

TEST_CASE("forward writer: layers and experts of a stack are views of it") {
  Writing w(testing::manifest({{"layers/up/kernel", "f32[3, 2, 4, 6]"},
                               {"layers/norm/scale", "f32[3, 4]"}}));
  const auto weight = w.out.parameter("layers.2.norm.weight", {4});
  CHECK(weight == "layers/norm/scale:2");
  CHECK(w.out.parameter("layers.2.norm.weight", {4}) == weight);
  const auto x = w.out.op("reshape", {weight}, "x", {{"shape", Shape{2, 2}}});
  const auto wide =
      w.out.op("reshape", {weight}, "y", {{"shape", Shape{1, 1, 4}}});
  const auto both = w.out.op("concatenate", {wide, wide}, "z", {{"dim", 0.0}});
  w.out.output(
      w.out.linear({both, "layers.1.up", 4, 6, "up", {}, false, false, 2}));
  w.out.output(x);
  CHECK(w.finished() == "");
  REQUIRE(w.graph);
  CHECK(equations(*w.graph) == "bsi,bio->bso ");
}

TEST_CASE(
    "forward writer: what the checkpoint lacks is reported once, with all") {
  Writing w(testing::manifest({{"layers.0.up_proj.weight", "f32[6, 4]"}}));
  for (int i = 0; i < 7; ++i) {
    w.out.parameter("layers." + std::to_string(i) + ".up_proj.weight", {6, 4});
  }
  CHECK(w.finished() ==
        "SP015 the forward pass of a `tiny` needs 6 parameters that the model "
        "does not have");
  const Diagnostic& diagnostic = w.diags.all().front();
  CHECK(diagnostic.facts.size() == 6);
  CHECK(diagnostic.facts.front() == "missing: `layers.1.up_proj.weight`");
  CHECK(diagnostic.help.front() == "did you mean `layers.0.up_proj.weight`?");
}

TEST_CASE("forward writer: shapes that the sizes contradict are SP015") {
  Writing w(testing::manifest({{"w", "f32[6, 4]"}}));
  w.out.output(w.out.op("square", {w.out.parameter("w", {4, 6})}, "y"));
  CHECK(w.finished() == "SP015 `w` has a different shape in the model");
}

TEST_CASE("forward writer: an activation function that there is none of") {
  Writing w(testing::manifest({{"w", "f32[6, 4]"}}));
  const auto x = w.out.parameter("w", {6, 4});
  w.out.activation("quick_gelu", x, "y");
  w.out.activation("quick_gelu", x, "z");
  CHECK_FALSE(w.out.good());
  CHECK(w.finished() ==
        "SP009 activation function `quick_gelu` is not supported");
  Writing known(testing::manifest({{"w", "f32[6, 4]"}}));
  known.out.output(
      known.out.activation("gelu", known.out.parameter("w", {6, 4}), "y"));
  CHECK(known.finished() == "");
  REQUIRE(known.graph);
  CHECK(text_of(known.graph->nodes[NodeId(0)].attributes, "approximate", "") ==
        "none");
}

}  // namespace
}  // namespace shardplan
