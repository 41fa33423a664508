// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/built_graph.h"
#include "tests/support/messages.h"
#include "tests/support/whole_values.h"

namespace shardplan {
namespace {

Value input(const std::string& name, Shape shape,
            std::vector<std::string> axes = {}) {
  Value value;
  value.name = name;
  value.kind = Value::Kind::Input;
  value.shape = std::move(shape);
  value.axes = std::move(axes);
  return value;
}

TEST_CASE("labels follow the factors of an operation") {
  Graph graph;
  Diagnostics diags;
  const ValueId x = append_value(graph, input("x", {2, 3}, {"batch", ""}));
  const ValueId w = append_value(graph, input("w", {3, 4}, {"embed", "mlp"}));
  const auto y = append_node(
      graph, {"einsum", {x, w}, {{"equation", "bk,kj->jb"}}, "y", "e", {}, {}},
      diags);
  REQUIRE(y);
  const Value& product = graph.values[*y];
  CHECK(product.shape == Shape{4, 2});
  CHECK(product.axes == std::vector<std::string>{"mlp", "batch"});
  CHECK(product.node == NodeId(0));
  CHECK(graph.nodes[NodeId(0)].label == "e");
  // Two factors in one dimension have no label of their own.
  const std::vector<int64_t> flat = {8};
  const auto z = append_node(
      graph, {"reshape", {*y}, {{"shape", flat}}, "z", "r", {}, {}}, diags);
  REQUIRE(z);
  CHECK(graph.values[*z].axes.empty());
}

TEST_CASE("the first operand that has a label gives it") {
  Graph graph;
  Diagnostics diags;
  const ValueId a = append_value(graph, input("a", {2, 3}, {"", "first"}));
  const ValueId b =
      append_value(graph, input("b", {2, 3}, {"batch", "second"}));
  const auto sum =
      append_node(graph, {"add", {a, b}, {}, "s", "", {}, {}}, diags);
  REQUIRE(sum);
  CHECK(graph.values[*sum].axes == std::vector<std::string>{"batch", "first"});
}

TEST_CASE("weights are parameters, and what is made of them alone") {
  const auto built = testing::built_graph(
      "graph: g\ninputs: {x: [4, 8]}\nparameters: {w: [8, 8]}\nops:\n"
      "  - {op: transpose, in: w, out: turned, order: [1, 0]}\n"
      "  - {op: matmul, in: [x, turned], out: y}\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const auto is_weight = [&](const char* name) {
    return built->graph->values[built->value(name)].is_weight;
  };
  for (const char* name : {"w", "turned"}) CHECK(is_weight(name));
  for (const char* name : {"x", "y"}) CHECK_FALSE(is_weight(name));
}

TEST_CASE("what does not fit adds nothing") {
  Graph graph;
  Diagnostics diags;
  const ValueId a = append_value(graph, input("a", {2}));
  const ValueId b = append_value(graph, input("b", {3}));
  CHECK_FALSE(append_node(graph, {"add", {a, b}, {}, "s", "", {}, {}}, diags));
  CHECK(graph.nodes.empty());
  CHECK(graph.values.size() == 2);
  CHECK(diags.count(Severity::Error) == 1);
}

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
  const GraphNode& node = g->graph->nodes.front();
  REQUIRE(node.shard_map);
  CHECK(node.shard_map->in_specs ==
        std::vector<PartitionSpec>{{{{}, {"tp"}}}, {{{"tp"}, {}}}});
  CHECK(node.shard_map->out_spec == PartitionSpec{{{"dp"}}});
  CHECK(node.shard_map->psum == AxisNames{"tp"});
  CHECK(node.inner_operand == std::nullopt);
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
    CHECK(node.inner_operand == std::nullopt);
  }
}

TEST_CASE("shard_map: a bias is added to what the same body has computed") {
  const auto g = with(
      "  - {op: linear, in: [x, w, b], out: y, shard_map: {in_specs: [[null, "
      "tp], [tp], []], out_specs: [], psum: [tp]}}\n");
  REQUIRE_MESSAGE(g->graph, g->messages);
  REQUIRE(g->ops() == "einsum add");
  const GraphNode& add = g->graph->nodes[NodeId(1)];
  CHECK(g->graph->nodes[NodeId(0)].inner_operand == std::nullopt);
  CHECK(add.inner_operand == 0);
  CHECK(add.shard_map->psum == AxisNames{"tp"});
  CHECK(add.shard_map->in_specs.size() == 2);
}

TEST_CASE("shard_map: one value read twice has the spec of each place") {
  const auto g = with(
      "  - {op: add, in: [x, x], out: y, shard_map: {in_specs: [[dp], [tp]], "
      "out_specs: [dp]}}\n");
  REQUIRE_MESSAGE(g->graph, g->messages);
  CHECK(g->graph->nodes[NodeId(0)].shard_map->in_specs[0] ==
        PartitionSpec{{{"dp"}}});
  CHECK(g->graph->nodes[NodeId(0)].shard_map->in_specs[1] ==
        PartitionSpec{{{"tp"}}});
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
       "`shard_map` does not apply to `softmax`"},
      {"{op: constraint, in: x, out: y, spec: [dp], shard_map: {in_specs: "
       "[[dp]], out_specs: [dp]}}",
       "`shard_map` does not apply to `constraint`"},
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
  CHECK(g->graph->probes == std::vector<ValueId>{g->value("y"), g->value("z")});
  CHECK(g->graph->outputs == std::vector<ValueId>{g->value("z")});
  const auto wrong = built_graph(R"(graph: g
inputs: {x: [4, 8]}
ops:
  - {op: relu, in: x, out: y}
probes: [nothing]
)");
  CHECK_FALSE(wrong->graph);
  CHECK(wrong->messages == "SP015 g:5:10 there is no value named `nothing`");
}

TEST_CASE("every value of a graph is there, in all arithmetics") {
  const auto built = testing::built_graph(
      "graph: g\ninputs: {x: [2, 2]}\nparameters: {w: [2, 2]}\n"
      "ops:\n"
      "  - {op: matmul, in: [x, w], out: y}\n"
      "  - {op: add, in: [y, x], out: z}\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  for (const Arithmetic arithmetic :
       {Arithmetic::F32, Arithmetic::F64, Arithmetic::Field}) {
    const Element element = element_of(arithmetic);
    PerValue<Tensor> given(built->graph->values.size());
    const auto give = [&](const char* name, std::vector<double> numbers) {
      given[built->value(name)] = make_tensor(element, {2, 2}, numbers);
    };
    give("x", {1, 2, 3, 4});
    give("w", {5, 6, 7, 8});
    const auto values = evaluate(*built->graph, given, arithmetic);
    const auto numbers = [&](const char* name) {
      return values_of(values[built->value(name)]);
    };
    CHECK(numbers("x") == std::vector<double>{1, 2, 3, 4});
    CHECK(numbers("y") == std::vector<double>{19, 22, 43, 50});
    CHECK(numbers("z") == std::vector<double>{20, 24, 46, 54});
  }
}

TEST_CASE("large operations give the same bits on any number of threads") {
  const auto built = testing::built_graph(
      "graph: g\ninputs: {x: [300, 400], y: [400]}\n"
      "ops:\n"
      "  - {op: gelu, in: x, out: a}\n"
      "  - {op: multiply, in: [a, y], out: b}\n"
      "  - {op: sum, in: b, dims: [0], keep: 0, out: c}\n"
      "  - {op: max, in: b, dims: [1], keep: 0, out: d}\n"
      "outputs: [c, d]\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  for (const Arithmetic arithmetic :
       {Arithmetic::F32, Arithmetic::F64, Arithmetic::Field}) {
    PerValue<Tensor> given(built->graph->values.size());
    for (const ValueId v : given.ids()) {
      const Value& value = built->graph->values[v];
      if (value.kind == Value::Kind::Result) continue;
      std::vector<double> numbers;
      for (int64_t i = 0; i < *element_count(value.shape); ++i) {
        const int64_t number = i * 7919 % 1009;
        numbers.push_back(arithmetic == Arithmetic::Field
                              ? static_cast<double>(number)
                              : static_cast<double>(number) / 500 - 1);
      }
      given[v] = make_tensor(element_of(arithmetic), value.shape, numbers);
    }
    const auto one = evaluate(*built->graph, given, arithmetic, 1);
    const auto many = evaluate(*built->graph, given, arithmetic, 3);
    for (const ValueId v : one.ids()) {
      CHECK(bitwise_equal(one[v], many[v]));
    }
  }
}

TEST_CASE("integers are ids and choices, and what moves them") {
  const auto built = testing::built_graph(
      "graph: g\ninputs: {ids: {shape: [2, 4], dtype: i32, below: 9}, x: [8]}\n"
      "parameters: {w: [9, 3]}\n"
      "ops:\n"
      "  - {op: reshape, in: ids, out: flat, shape: [8]}\n"
      "  - {op: embedding, in: [w, flat], out: rows}\n"
      "  - {op: reshape, in: x, out: y, shape: [2, 4]}\n"
      "  - {op: add, in: [ids, y], out: z}\n"
      "outputs: [rows, z]\n");
  REQUIRE_MESSAGE(built->graph, built->messages);
  const auto is_integer = [&](const char* name) {
    return built->at(name).is_integer();
  };
  for (const char* name : {"ids", "flat"}) CHECK(is_integer(name));
  for (const char* name : {"x", "w", "rows", "y", "z"}) {
    CHECK_FALSE(is_integer(name));
  }
}

}  // namespace

}  // namespace shardplan
