// SPDX-License-Identifier: Apache-2.0
#include "graph/map_nodes.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/built_graph.h"

namespace shardplan {
namespace {

using testing::built_graph;

std::unique_ptr<testing::BuiltGraph> with(const std::string& ops) {
  return built_graph(R"(graph: g
inputs: {x: [4, 8], m: [4, 8]}
parameters: {w: [8, 6], b: [6]}
ops:
)" + ops);
}

TEST_CASE("shard_map: an operation has the specs of the file") {
  const auto g = with(
      "  - {op: einsum, in: [x, w], out: y, equation: 'bd,df->bf', shard_map: "
      "{in_specs: [[null, tp], [tp, null]], out_specs: [dp], psum: tp}}\n");
  REQUIRE_MESSAGE(g->graph, g->messages);
  const GraphNode& node = g->graph->nodes.at(0);
  REQUIRE(node.shard_map);
  CHECK(node.shard_map->in_specs ==
        std::vector<PartitionSpec>{{{{}, {"tp"}}}, {{{"tp"}, {}}}});
  CHECK(node.shard_map->out_spec == PartitionSpec{{{"dp"}}});
  CHECK(node.shard_map->psum == AxisNames{"tp"});
  CHECK(node.inner_operand == -1);
}

TEST_CASE("shard_map: every part of a split has it") {
  const auto g = with(
      "  - {op: split, in: x, out: [p, q], shard_map: {in_specs: [[null, tp]], "
      "out_specs: [null, tp]}}\n");
  REQUIRE_MESSAGE(g->graph, g->messages);
  REQUIRE(g->graph->nodes.size() == 2);
  for (const GraphNode& node : g->graph->nodes) {
    REQUIRE(node.shard_map);
    CHECK(node.shard_map->in_specs ==
          std::vector<PartitionSpec>{{{{}, {"tp"}}}});
    CHECK(node.inner_operand == -1);
  }
}

TEST_CASE("shard_map: a bias is added to what the same body has computed") {
  const auto g = with(
      "  - {op: linear, in: [x, w, b], out: y, shard_map: {in_specs: [[null, "
      "tp], [tp], []], out_specs: [], psum: [tp]}}\n");
  REQUIRE_MESSAGE(g->graph, g->messages);
  REQUIRE(g->ops() == "einsum add");
  const GraphNode& add = g->graph->nodes[1];
  CHECK(g->graph->nodes[0].inner_operand == -1);
  CHECK(add.inner_operand == 0);
  CHECK(add.shard_map->psum == AxisNames{"tp"});
  CHECK(add.shard_map->in_specs.size() == 2);
}

TEST_CASE("shard_map: one value read twice has the spec of each place") {
  const auto g = with(
      "  - {op: add, in: [x, x], out: y, shard_map: {in_specs: [[dp], [tp]], "
      "out_specs: [dp]}}\n");
  REQUIRE_MESSAGE(g->graph, g->messages);
  CHECK(g->graph->nodes[0].shard_map->in_specs[0] == PartitionSpec{{{"dp"}}});
  CHECK(g->graph->nodes[0].shard_map->in_specs[1] == PartitionSpec{{{"tp"}}});
}

TEST_CASE("shard_map: what makes no sense is refused, and where") {
  struct Case {
    const char* op;
    const char* message;
  };
  const Case cases[] = {
      {"{op: add, in: [x, m], out: y, shard_map: {in_specs: [[dp]], "
       "out_specs: [dp]}}",
       "1 spec in `in_specs` for 2 operands"},
      {"{op: softmax, in: x, out: y, shard_map: {in_specs: [[dp]], out_specs: "
       "[dp]}}",
       "`shard_map` on `softmax`"},
      {"{op: constraint, in: x, out: y, spec: [dp], shard_map: {in_specs: "
       "[[dp]], out_specs: [dp]}}",
       "`shard_map` on `constraint`"},
      {"{op: relu, in: x, out: y, shard_map: {in_specs: [[dp, tp, ep]], "
       "out_specs: [dp]}}",
       "P(dp, tp, ep) is longer than the rank of `x` [4, 8]"},
      {"{op: relu, in: x, out: y, shard_map: {in_specs: [[dp]], out_specs: "
       "[dp, tp, ep]}}",
       "P(dp, tp, ep) is longer than the rank of `y` [4, 8]"},
      {"{op: relu, in: x, out: y, shard_map: {in_specs: [[dp, dp]], out_specs: "
       "[dp]}}",
       "`shard_map` uses axis `dp` twice for `x`"},
      {"{op: relu, in: x, out: y, shard_map: {in_specs: [[dp]], out_specs: "
       "[dp], psum: [dp]}}",
       "`shard_map` uses axis `dp` twice for `y`"},
  };
  for (const Case& c : cases) {
    const auto g = with("  - " + std::string(c.op) + "\n");
    CHECK_FALSE(g->graph);
    CHECK_MESSAGE(g->messages.find("SP015 g:5:") == 0, g->messages);
    CHECK_MESSAGE(g->messages.find(c.message) != std::string::npos,
                  g->messages);
  }
}

TEST_CASE("probes are values of the graph") {
  const auto g = built_graph(R"(graph: g
inputs: {x: [4, 8]}
ops:
  - {op: relu, in: x, out: y}
  - {op: relu, in: y, out: z}
probes: [y, z]
)");
  REQUIRE_MESSAGE(g->graph, g->messages);
  CHECK(g->graph->probes == std::vector<int>{g->value("y"), g->value("z")});
  CHECK(g->graph->outputs == std::vector<int>{g->value("z")});
  const auto wrong = built_graph(R"(graph: g
inputs: {x: [4, 8]}
ops:
  - {op: relu, in: x, out: y}
probes: [nothing]
)");
  CHECK_FALSE(wrong->graph);
  CHECK(wrong->messages == "SP015 g:5:10 there is no value named `nothing`");
}

}  // namespace
}  // namespace shardplan
