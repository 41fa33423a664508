// SPDX-License-Identifier: Apache-2.0
#include "io/graph_reader.h"

#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "io/graph_file.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

struct Read {
  Diagnostics diags;
  std::optional<GraphDescription> graph;
  std::string messages;
};

std::unique_ptr<Read> read(const std::string& text) {
  auto result = std::make_unique<Read>();
  result->graph =
      read_graph(std::make_shared<SourceFile>("g", text), {}, result->diags);
  result->messages = testing::messages(result->diags);
  return result;
}

TEST_CASE("everything that a graph file says is read") {
  const auto result = read(R"(graph: block
title: a block
dims: {batch: 2, embed: 8, vocab: 50}
inputs:
  x: [batch, embed]
  ids: {shape: [batch], below: vocab, spec: [[fsdp, sp]]}
parameters:
  table: {shape: [vocab, embed], init: {name: normal, stddev: 0.02, scale: 2}}
  w: {name: layers/0/w, axes: [embed, null], dtype: bf16}
  bare:
ops:
  - {op: split, in: x, out: [a, b], dim: -1, sizes: [2, embed/2]}
  - {op: scale, in: a, out: c, by: {rsqrt: 4}, axes: [BATCH, null]}
  - {op: constraint, in: c, out: d, spec: [fsdp, null]}
  - {op: gelu, in: [d], out: e, approximate: embed, exact: true}
outputs: e
)");
  REQUIRE_MESSAGE(result->graph, result->messages);
  CHECK(result->messages.empty());
  const GraphDescription& graph = *result->graph;
  CHECK(graph.name == "block");
  REQUIRE(graph.inputs.size() == 2);
  CHECK(graph.inputs[0].shape == Shape{2, 8});
  CHECK(graph.inputs[1].integers_below == 50);
  CHECK(graph.inputs[1].dtype == DType::I32);
  CHECK(graph.inputs[1].spec == PartitionSpec{{{"fsdp", "sp"}}});
  REQUIRE(graph.parameters.size() == 3);
  CHECK(graph.parameters[0].parameter == "table");
  CHECK(graph.parameters[0].initialiser.name == "normal");
  CHECK(graph.parameters[0].initialiser.stddev == 0.02);
  CHECK(graph.parameters[0].initialiser.scale == 2);
  CHECK(graph.parameters[1].parameter == "layers/0/w");
  CHECK(graph.parameters[1].axes == std::vector<std::string>{"embed", ""});
  CHECK(graph.parameters[1].dtype == DType::BF16);
  CHECK_FALSE(graph.parameters[1].shape);
  CHECK(graph.parameters[2].parameter == "bare");
  REQUIRE(graph.ops.size() == 4);
  CHECK(graph.ops[0].results == std::vector<std::string>{"a", "b"});
  CHECK(std::get<double>(graph.ops[0].attributes[0].value) == -1);
  CHECK(std::get<std::vector<int64_t>>(graph.ops[0].attributes[1].value) ==
        std::vector<int64_t>{2, 4});
  CHECK(std::get<double>(graph.ops[1].attributes[0].value) == 0.5);
  CHECK(graph.ops[1].axes == std::vector<std::string>{"BATCH", ""});
  CHECK(std::get<PartitionSpec>(graph.ops[2].attributes[0].value) ==
        PartitionSpec{{{"fsdp"}, {}}});
  CHECK(std::get<std::string>(graph.ops[3].attributes[0].value) == "embed");
  CHECK(graph.ops[3].attributes[0].size == 8);
  CHECK(std::get<double>(graph.ops[3].attributes[1].value) == 1);
  CHECK(graph.outputs == std::vector<std::string>{"e"});
}

// What is wrong with a graph that has `line` before its one operation.
std::string wrong(const std::string& lines) {
  return read("graph: g\n" + lines + "\nops: [{op: relu, in: x, out: y}]\n")
      ->messages;
}

TEST_CASE("parameters may be drawn shard by shard") {
  const auto init = [](const std::string& how) {
    Diagnostics diags;
    const auto graph = read_graph(
        std::make_shared<SourceFile>(
            "g", "graph: g\nparameters: {w: {shape: [4, 2], init: " + how +
                     "}}\nops: []\n"),
        {}, diags);
    return graph ? std::optional(graph->parameters[0].initialiser)
                 : std::nullopt;
  };
  const auto all =
      init("{name: ones, per_shard: true, split_rngs: false, mask_except: 3}");
  REQUIRE(all.has_value());
  CHECK(all->per_shard);
  CHECK_FALSE(all->split_rngs);
  CHECK(all->mask_except == 3);
  const auto plain = init("ones");
  REQUIRE(plain.has_value());
  CHECK_FALSE(plain->per_shard);
  CHECK(plain->split_rngs);
  CHECK_FALSE(init("{name: ones, split_rngs: false}").has_value());
  CHECK_FALSE(init("{name: ones, per_shard: 2}").has_value());
}

TEST_CASE("what is no graph file is refused with its place") {
  CHECK(read("graph: g\n")->messages == "SP002 g:1:1 there are no `ops`");
  CHECK(read("ops: []\n")->messages == "SP002 g:1:1 there is no `graph`");
  CHECK(wrong("input: {}") == "SP004 g:2:1 key `input` means nothing here");
  CHECK(wrong("inputs: [x]") ==
        "SP002 g:2:9 `inputs` must be a map, not a list");
  CHECK(wrong("inputs: {x: 3}") ==
        "SP002 g:2:13 `x` must be a map, not an integer");
  CHECK(wrong("inputs: {x: {axes: []}}") ==
        "SP002 g:2:13 input `x` has no `shape`");
  CHECK(wrong("inputs: {x: {shape: [2], init: ones}}") ==
        "SP004 g:2:26 key `init` means nothing here");
  CHECK(wrong("inputs: {'x y': [2]}") ==
        "SP002 g:2:10 `x y` is no name of a value");
  CHECK(wrong("inputs: {x: [2, y]}") ==
        "SP015 g:2:17 `y` is no size: `y` is neither a number nor a name in "
        "`dims`");
  CHECK(wrong("inputs: {x: [9007199254740992, 9007199254740992]}") ==
        "SP002 g:2:13 the shape has more than 2^63 elements");
  CHECK(wrong("inputs: {x: {shape: [2, 3], axes: [a]}}") ==
        "SP015 g:2:35 1 label for [2, 3]");
  CHECK(wrong("inputs: {x: {shape: [2], spec: [a, b]}}") ==
        "SP015 g:2:32 P(a, b) is longer than the rank of [2]");
}

TEST_CASE("dtypes and limits of integers go together") {
  CHECK(wrong("inputs: {x: {shape: [2], dtype: i32}}") ==
        "SP002 g:2:33 integers need a limit");
  CHECK(wrong("inputs: {x: {shape: [2], dtype: f32, below: 3}}") ==
        "SP002 g:2:33 `below` is for integers");
  CHECK(wrong("inputs: {x: {shape: [2], dtype: i64, below: 3}}").empty());
  CHECK(wrong("inputs: {x: {shape: [2], below: 0}}") ==
        "SP002 g:2:33 `below` must be at least 1");
  CHECK(wrong("inputs: {x: {shape: [2], dtype: f33}}") ==
        "SP002 g:2:33 `f33` is no dtype");
}

// What is wrong with one operation.
std::string wrong_op(const std::string& op) {
  return read("graph: g\nops: [" + op + "]\n")->messages;
}

TEST_CASE("operations are maps with `op`, `in` and `out`") {
  CHECK(wrong_op("relu") ==
        "SP002 g:2:7 `an operation` must be a map, not text");
  CHECK(wrong_op("{op: relu, in: x}") ==
        "SP002 g:2:7 an operation has no `out`");
  CHECK(wrong_op("{op: relu, in: 3, out: y}") ==
        "SP002 g:2:22 `in` must be text, not an integer");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: {sqrt: 3}}") ==
        "SP004 g:2:38 key `sqrt` means nothing here");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: {rsqrt: 0}}") ==
        "SP002 g:2:45 1/sqrt(0) is no number");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: 18014398509481984}") ==
        "SP002 g:2:37 the number exceeds 2^53");
  CHECK(wrong_op("{op: relu, in: x, out: y, by: .inf}") !=
        wrong_op("{op: relu, in: x, out: y, by: 1}"));
  CHECK(wrong_op("{op: relu, in: x, out: y, spec: [[a, null]]}") ==
        "SP002 g:2:44 `null` stands inside a list of axes");
}

TEST_CASE("a graph of mistakes is read no further than twenty of them") {
  std::string text = "graph: g\nops:\n";
  for (int i = 0; i < 1000; ++i) text += "  - relu\n";
  const auto result = read(text);
  CHECK(result->diags.count(Severity::Error) == 20);
  CHECK(result->diags.count(Severity::Note) == 1);
}

TEST_CASE("a shard_map says how devices do an operation") {
  const auto result = read(R"(graph: g
inputs: {x: [4, 8]}
ops:
  - {op: relu, in: x, out: y, shard_map: {in_specs: [[[dp, sp], null]], out_specs: []}}
  - {op: sum, in: y, out: z, dims: [1], shard_map: {in_specs: [[dp, tp]], out_specs: [dp], psum: [tp, sp]}}
probes: [y]
)");
  REQUIRE_MESSAGE(result->graph, result->messages);
  const std::vector<DescribedOp>& ops = result->graph->ops;
  CHECK(ops[0].shard_map == ShardMapUse{{{{{"dp", "sp"}, {}}}}, {}, {}});
  CHECK(ops[1].shard_map ==
        ShardMapUse{{{{{"dp"}, {"tp"}}}}, {{{"dp"}}}, {"tp", "sp"}});
  CHECK(ops[1].attributes.size() == 1);
  CHECK(testing::place_text(ops[1].shard_map_where) == "g:5:52");
  CHECK(result->graph->probes == std::vector<std::string>{"y"});
}

TEST_CASE("a shard_map that is none is refused") {
  const auto error = [](const std::string& map) {
    const auto result = read(
        "graph: g\ninputs: {x: [4]}\nops:\n  - {op: relu, in: x, out: y, "
        "shard_map: " +
        map + "}\n");
    CHECK_FALSE(result->graph);
    return result->messages;
  };
  CHECK(error("[dp]") == "SP002 g:4:42 `shard_map` must be a map, not a list");
  CHECK(error("{in_specs: [[]]}") ==
        "SP002 g:4:42 `shard_map` has no `out_specs`");
  CHECK(error("{out_specs: []}") ==
        "SP002 g:4:42 `shard_map` has no `in_specs`");
  CHECK(error("{in_specs: dp, out_specs: []}").find("SP002 g:4:53 ") == 0);
  CHECK(error("{in_specs: [[]], out_specs: [], mean: dp}").find("SP004") == 0);
}

}  // namespace
}  // namespace shardplan
