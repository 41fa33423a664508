// SPDX-License-Identifier: Apache-2.0
#include "graph/build.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/built_graph.h"

namespace shardplan {
namespace {

using testing::built_graph;

TEST_CASE("a graph has the values, labels and outputs that its file says") {
  const auto built = built_graph(R"(graph: g
dims: {batch: 2, embed: 4, mlp: 8}
inputs:
  x: {shape: [batch, embed], axes: [BATCH, null], spec: [fsdp, null]}
parameters:
  w: {name: up/kernel, shape: [embed, mlp], init: lecun_normal}
ops:
  - {op: linear, in: [x, w], out: h}
  - {op: relu, in: h, out: a, axes: [BATCH, MLP]}
  - {op: constraint, in: a, out: c, spec: [fsdp, tp]}
  - {op: negate, in: h, out: n}
)");
  REQUIRE_MESSAGE(built->graph, built->messages);
  CHECK(built->ops() == "einsum relu constraint negate");
  CHECK(built->at("x").kind == Value::Kind::Input);
  CHECK(built->at("x").spec == PartitionSpec{{{"fsdp"}, {}}});
  CHECK(built->at("w").parameter == "up/kernel");
  CHECK(built->at("w").initialiser.name == "lecun_normal");
  CHECK(built->at("h").shape == Shape{2, 8});
  CHECK(built->at("h").axes == std::vector<std::string>{"BATCH", ""});
  CHECK_FALSE(built->at("h").labelled);
  CHECK(built->at("a").axes == std::vector<std::string>{"BATCH", "MLP"});
  CHECK(built->at("a").labelled);
  CHECK(built->at("c").spec == PartitionSpec{{{"fsdp"}, {"tp"}}});
  CHECK(built->at("c").axes == built->at("a").axes);
  CHECK(built->graph->nodes.front().label == "linear");
  CHECK(built->graph->outputs ==
        std::vector<ValueId>{built->value("c"), built->value("n")});
}

TEST_CASE("shapes that the file leaves out are those of the model") {
  const std::string text =
      "graph: g\ninputs: {x: [2, 3]}\nparameters: {w: {name: a/kernel}}\n"
      "ops: [{op: matmul, in: [x, w], out: y}]\n";
  Manifest manifest;
  manifest.add("a/kernel", {DType::BF16, {3, 5}}, {});
  const auto built = built_graph(text, {}, manifest);
  REQUIRE_MESSAGE(built->graph, built->messages);
  CHECK(built->at("y").shape == Shape{2, 5});
  Manifest other;
  other.add("a/kernels", {DType::BF16, {3, 5}}, {});
  const auto unknown = built_graph(text, {}, other);
  CHECK(unknown->messages == "SP015 g:3:14 the shape of `w` is unknown");
  CHECK(unknown->diags.all().front().help ==
        std::vector<std::string>{"did you mean `a/kernels`?"});
  const auto differs = built_graph(
      "graph: g\ninputs: {x: [2, 3]}\n"
      "parameters: {w: {name: a/kernel, shape: [3, 4]}}\n"
      "ops: [{op: matmul, in: [x, w], out: y}]\n",
      {}, manifest);
  CHECK(differs->messages ==
        "SP015 g:3:14 `w` has a different shape in the model");
}

// What is wrong with a graph of x [2, 3], w [3, 4] and these operations.
std::string build_errors(const std::string& ops) {
  return built_graph(
             "graph: g\ninputs: {x: [2, 3]}\nparameters: {w: [3, 4]}\n" + ops)
      ->messages;
}

TEST_CASE("operations that do not fit are refused where they stand") {
  CHECK(build_errors("ops: [{op: linaer, in: [x, w], out: y}]") ==
        "SP015 g:4:12 unknown operation `linaer`");
  CHECK(build_errors("ops: [{op: linear, in: [x, v], out: y}]") ==
        "SP015 g:4:28 there is no value named `v`");
  CHECK(build_errors("ops: [{op: linear, in: x, out: y}]") ==
        "SP015 g:4:12 `linear` has 1 operand");
  CHECK(build_errors("ops: [{op: relu, in: x, out: [y, z]}]") ==
        "SP015 g:4:12 `relu` has 2 results");
  CHECK(build_errors("ops: [{op: relu, in: x, out: y, by: 3}]") ==
        "SP015 g:4:33 `relu` has no attribute `by`");
  CHECK(build_errors("ops: [{op: scale, in: x, out: y, by: half}]") ==
        "SP015 g:4:38 `by` of `scale` must be a number");
  CHECK(build_errors("ops: [{op: sum, in: x, out: y, dims: [a]}]") ==
        "SP015 g:4:39 `a` is not a size: `a` is neither a number nor a name in "
        "`dims`");
  CHECK(build_errors("ops: [{op: einsum, in: [x, w], out: y}]") ==
        "SP015 g:4:12 `einsum` needs `equation`");
  CHECK(build_errors("ops: [{op: relu, in: x, out: x}]") ==
        "SP015 g:4:30 `x` is defined twice");
  CHECK(build_errors(
            "ops: [{op: relu, in: y, out: z}, {op: relu, in: x, out: y}]") ==
        "SP015 g:4:22 `y` is read before it is defined");
  CHECK(build_errors("ops: [{op: relu, in: x, out: y, axes: [a]}]") ==
        "SP015 g:4:39 1 label for [2, 3]");
  CHECK(
      build_errors("ops: [{op: constraint, in: x, out: y, spec: [a, b, c]}]") ==
      "SP015 g:4:12 P(a, b, c) is longer than the rank of [2, 3]");
  CHECK(build_errors("ops: []") == "SP015 graph `g` computes nothing");
  CHECK(build_errors("ops: [{op: relu, in: x, out: y}]\noutputs: [z]") ==
        "SP015 g:5:11 there is no value named `z`");
  CHECK(build_errors("ops: [{op: linear, in: [w, x], out: y}]")
            .starts_with("SP015 g:4:12 "));
}

TEST_CASE("one mistake is reported once, and several in one run") {
  CHECK(build_errors(
            "ops: [{op: rleu, in: x, out: y}, {op: relu, in: y, out: z}, "
            "{op: tnah, in: z, out: u}]") ==
        "SP015 g:4:12 unknown operation `rleu`\nSP015 g:4:66 unknown operation "
        "`tnah`");
  std::string many = "ops:\n";
  for (int i = 0; i < 100; ++i) {
    many += "  - {op: none, in: x, out: y" + std::to_string(i) + "}\n";
  }
  const auto built = built_graph("graph: g\ninputs: {x: [2]}\n" + many);
  CHECK(built->diags.count(Severity::Error) == 20);
  CHECK(built->diags.count(Severity::Note) == 1);
}

TEST_CASE("sizes beyond 63 bits are refused, not computed") {
  const std::string big = "graph: g\ndims: {n: 9007199254740992}\n";
  CHECK(built_graph(big + "inputs: {x: [n, 1], y: [1, n]}\n"
                          "ops: [{op: add, in: [x, y], out: z}]\n")
            ->messages ==
        "SP015 g:4:12 the result [9007199254740992, 9007199254740992] has "
        "too many elements");
}

TEST_CASE("a masked shard must be there") {
  const auto build_errors = [](const std::string& parameter) {
    return built_graph("graph: g\nparameters: {w: " + parameter +
                       "}\nops: [{op: silu, in: w, out: y}]\n")
        ->messages;
  };
  CHECK(build_errors("{shape: [4], init: {name: ones, per_shard: true, "
                     "mask_except: 4}}") ==
        "SP015 g:2:36 there is no shard 4 in [4]");
  CHECK(build_errors("{shape: [], init: {name: ones, per_shard: true}}") ==
        "SP015 g:2:35 a scalar has no shards");
}

TEST_CASE("an initialiser must be known") {
  CHECK(built_graph("graph: g\ninputs: {x: [2]}\n"
                    "parameters: {w: {shape: [2], init: lecun_norml}}\n"
                    "ops: [{op: add, in: [x, w], out: y}]\n")
            ->messages == "SP015 g:3:36 `lecun_norml` is not an initialiser");
}

}  // namespace
}  // namespace shardplan
