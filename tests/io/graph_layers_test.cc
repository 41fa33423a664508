// SPDX-License-Identifier: Apache-2.0
// Expressions, constants and repeated layers of graph files.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/random.h"
#include "io/graph/graph_file.h"
#include "io/graph/graph_reader.h"
#include "io/graph/layer_names.h"
#include "tests/support/built_graph.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::built_graph;

const DimSizes kSomeDims = {{"heads", 8}, {"head_dim", 64}, {"none", 0}};

std::string amount(const std::string& text) {
  std::string why;
  const auto value = evaluate_amount(text, kSomeDims, why);
  if (!value) return why;
  return std::to_string(value->real) + (value->whole ? "" : ": " + value->why);
}

TEST_CASE("graph expressions: numbers, and sizes where they are some") {
  CHECK(amount("heads + 2*head_dim") == "136.000000");
  CHECK(amount("(heads + 2)*head_dim - 1") == "639.000000");
  CHECK(amount("1/sqrt(head_dim)") == "0.125000: a square root is not a size");
  CHECK(amount("sqrt(2*heads)") == "4.000000: a square root is not a size");
  CHECK(amount("0.5*heads") == "4.000000: `0.5` is not an integer");
  CHECK(amount("1e-3") == "0.001000: `1e-3` is not an integer");
  CHECK(amount("heads/3") == "2.666667: 8 is not divisible by 3");
  CHECK(amount("heads - 9") == "-1.000000: 8 - 9 is negative");
}

TEST_CASE("graph expressions: what is none says why") {
  CHECK(amount("1/none") == "1 is not divisible by 0");
  CHECK(amount("sqrt(heads - 9)") == "a negative number has no square root");
  CHECK(amount("(heads") == "a `)` is missing");
  CHECK(amount("heads)") == "unexpected `)`");
  CHECK(amount("sqrt heads") ==
        "`sqrt heads` is neither a number nor a name in `dims`");
  CHECK(amount("4heads") ==
        "`4heads` is neither a number nor a name in `dims`; did you mean "
        "`heads`?");
  CHECK(amount(std::string(100, '(')) == "parentheses are nested too deeply");
  CHECK(amount("1e999") == "`1e999` is neither a number nor a name in `dims`");
}

TEST_CASE("graph expressions: an attribute takes the number") {
  const auto built = built_graph(R"(graph: g
dims: {head_dim: 16}
inputs: {x: [4, head_dim]}
ops:
  - {op: scale, in: x, out: a, by: 1/sqrt(head_dim)}
  - {op: shift, in: a, out: b, by: -0.5}
  - {op: slice, in: b, out: c, dim: 1, begin: head_dim/2, end: head_dim - 1}
)");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const auto& nodes = built->graph->nodes;
  CHECK(number_of(nodes[NodeId(0)].attributes, "by", 0) == 0.25);
  CHECK(number_of(nodes[NodeId(1)].attributes, "by", 0) == -0.5);
  CHECK(built->at("c").shape == Shape{4, 7});
  const auto wrong = built_graph(R"(graph: g
inputs: {x: [4]}
ops: [{op: scale, in: x, out: a, by: 1/sqrt(dim)}]
)");
  CHECK(wrong->messages == "SP015 g:3:38 `by` of `scale` must be a number");
}

TEST_CASE("a number in the place of an operand is answered") {
  const auto wrong = built_graph(
      "graph: g\ninputs: {x: [4]}\nops: [{op: add, in: [x, 1], out: a}]\n");
  CHECK(wrong->messages == "SP002 g:3:25 a number cannot be an operand");
  CHECK(wrong->diags.all().front().help.front().find("op: shift") !=
        std::string::npos);
}

constexpr const char* kLayers = R"(graph: layers
dims: {layers: 3, embed: 8}
inputs: {x: [4, embed]}
parameters: {norm: [embed]}
ops:
  - repeat: layers
    name: model.layers.{i}
    carry: [x]
    parameters:
      norm: {name: norm.weight, shape: [embed]}
      w: {shape: [embed, embed], axes: [embed, mlp], spec: [tp, null]}
      odd: {name: "extra_{i}_w", shape: [embed]}
    ops:
      - {op: rms_norm, in: [x, norm], out: normed}
      - {op: linear, in: [normed, w], out: made}
      - {op: add, in: [made, odd], out: more}
      - {op: add, in: [x, more], out: x}
    probes: x
  - {op: rms_norm, in: [x, norm], out: last}
outputs: [x, last]
)";

TEST_CASE("repeated layers are written once, and hand values on") {
  const auto built = built_graph(kLayers);
  REQUIRE_MESSAGE(built->graph, built->messages);
  const Graph& graph = *built->graph;
  const auto operand = [&](const std::string& of, size_t i) {
    const Value& value = built->at(of);
    const GraphNode& node = graph.nodes[value.node];
    return graph.values[node.operands[i]].name;
  };
  CHECK(operand("model.layers.0.x", 0) == "x");
  CHECK(operand("model.layers.0.x", 1) == "model.layers.0.more");
  CHECK(operand("model.layers.2.x", 0) == "model.layers.1.x");
  CHECK(built->at("model.layers.1.norm").parameter ==
        "model.layers.1.norm.weight");
  CHECK(built->at("model.layers.1.w").parameter == "model.layers.1.w");
  CHECK(built->at("model.layers.2.odd").parameter == "extra_2_w");
  CHECK(built->at("norm").parameter == "norm");
  REQUIRE(graph.probes.size() == 3);
  CHECK(graph.probes[2] == built->value("model.layers.2.x"));
  REQUIRE(graph.outputs.size() == 2);
  CHECK(graph.outputs[0] == graph.probes[2]);
  CHECK(output_name(graph, graph.outputs[0]) == "x");
  CHECK(output_name(graph, graph.outputs[1]) == "last");
  // Of outer values those of the layer have the same place in every layer.
  CHECK(testing::place_text(built->at("model.layers.0.made").where) ==
        testing::place_text(built->at("model.layers.2.made").where));
}

TEST_CASE("repeated layers: a number of layers may be chosen") {
  const auto built = built_graph(kLayers, {{"layers", 100}});
  REQUIRE_MESSAGE(built->graph, built->messages);
  CHECK(built->value("model.layers.99.x"));
  CHECK_FALSE(built->value("model.layers.100.x"));
}

TEST_CASE("repeated layers: parameters are a model with names by number") {
  Diagnostics diags;
  const auto graph = read_graph(
      std::make_shared<SourceFile>("g", std::string(kLayers)), {}, diags);
  REQUIRE(graph);
  const auto manifest = graph_manifest(*graph, diags);
  REQUIRE(manifest);
  std::string names;
  for (size_t i = 0; i < manifest->size(); ++i) {
    names += std::string(manifest->name(i)) + " ";
  }
  CHECK(names ==
        "norm model.layers.0.norm.weight model.layers.0.w extra_0_w "
        "model.layers.1.norm.weight model.layers.1.w extra_1_w "
        "model.layers.2.norm.weight model.layers.2.w extra_2_w ");
  CHECK(testing::place_text(manifest->where(7)) == "g:10:7");
}

TEST_CASE("repeated layers: the number of a layer is a size") {
  const auto built = built_graph(R"(graph: stacked
inputs: {x: [4, 8]}
parameters: {w: [3, 8]}
ops:
  - repeat: 3
    name: h_{i}
    carry: x
    ops:
      - {op: slice, in: w, out: row, dim: 0, begin: i, end: i + 1}
      - {op: multiply, in: [x, row], out: x}
)");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const Value& row = built->at("h_2.row");
  const auto& attributes = built->graph->nodes[row.node].attributes;
  CHECK(number_of(attributes, "begin", 0) == 2);
  CHECK(output_name(*built->graph, built->graph->outputs[0]) == "h_2.x");
}

// What is wrong with a graph of one repeat.
std::string wrong_repeat(
    const std::string& keys,
    const std::string& ops = "[{op: relu, in: x, out: x}]") {
  return built_graph("graph: g\ndims: {layers: 2}\ninputs: {x: [4]}\nops:\n" +
                     ("  - {repeat: " + keys) + ", ops: " + ops + "}\n")
      ->messages;
}

TEST_CASE("repeated layers: mistakes have a place, and are told once") {
  CHECK(wrong_repeat("layers, carry: x").empty());
  CHECK(wrong_repeat("layers") ==
        "SP015 g:5:51 `x` is produced in every layer and also outside");
  CHECK(wrong_repeat("layers, carry: y") ==
        "SP015 g:5:29 no `y` exists for the first layer to start from\n"
        "SP015 g:5:61 `x` is produced in every layer and also outside");
  CHECK(wrong_repeat("layers, carry: x", "[{op: relu, in: x, out: y}]") ==
        "SP015 g:5:29 no operation of the layer produces `x`");
  CHECK(wrong_repeat("0, carry: x") ==
        "SP002 g:5:14 `repeat` must be at least 1");
  CHECK(wrong_repeat("3, carry: x") ==
        "SP002 g:5:5 repeated layers need a `name`");
  CHECK(wrong_repeat("3, carry: x, name: layer") ==
        "SP002 g:5:33 the name of repeated layers must contain `{i}`");
  CHECK(wrong_repeat("layer, carry: x").find("SP015 g:5:14 `layer` is not a") ==
        0);
  CHECK(wrong_repeat("layers, carry: x, step: 2").find("SP004") == 0);
  CHECK(wrong_repeat("layers, carry: x",
                     "[{repeat: 2, ops: [], name: \"{i}\"}]") ==
        "SP002 g:5:38 `repeat` cannot be nested in another `repeat`");
  // In both layers, and told of the first.
  CHECK(wrong_repeat("layers, carry: x", "[{op: rleu, in: x, out: x}]") ==
        "SP015 g:5:43 unknown operation `rleu`");
  CHECK(wrong_repeat("layers, carry: x",
                     "[{op: relu, in: z, out: a}, {op: relu, in: x, out: x}]")
            .find("SP015 g:5:53 there is no value named `z`") == 0);
  CHECK(wrong_repeat("layers, carry: x",
                     "[{op: relu, in: x, out: x}, {op: relu, in: x, out: x}]")
            .find("is defined twice") != std::string::npos);
}

TEST_CASE("repeated layers: a few words cannot ask for millions of nodes") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(wrong_repeat("9007199254740992, carry: x, name: \"h{i}\"") ==
        "SP015 g:5:14 9,007,199,254,740,992 layers are too many");
  CHECK(wrong_repeat("1000000, carry: x, name: \"h{i}\"") ==
        "SP015 g:5:14 1,000,000 layers are too many");
  // All of the file count together.
  std::string text = "graph: g\ninputs: {x: [4]}\nops:\n";
  for (int i = 0; i < 100; ++i) {
    text += "  - {repeat: 50000, carry: x, name: \"h" + std::to_string(i) +
            ".{i}\", ops: [{op: relu, in: x, out: x}]}\n";
  }
  Diagnostics diags;
  CHECK_FALSE(read_graph(std::make_shared<SourceFile>("g", text), {}, diags));
  CHECK(diags.count(Severity::Error) > 0);
  const std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - start;
  CHECK(spent.count() < 30);
}

}  // namespace
}  // namespace shardplan
