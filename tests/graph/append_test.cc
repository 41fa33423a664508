// SPDX-License-Identifier: Apache-2.0
#include "graph/append.h"

#include <doctest/doctest.h>

#include "tests/support/messages.h"

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
  const int x = append_value(graph, input("x", {2, 3}, {"batch", ""}));
  const int w = append_value(graph, input("w", {3, 4}, {"embed", "mlp"}));
  const auto y = append_node(
      graph, {"einsum", {x, w}, {{"equation", "bk,kj->jb"}}, "y", "e", {}, {}},
      diags);
  REQUIRE(y);
  const Value& product = graph.values[static_cast<size_t>(*y)];
  CHECK(product.shape == Shape{4, 2});
  CHECK(product.axes == std::vector<std::string>{"mlp", "batch"});
  CHECK(product.node == 0);
  CHECK(graph.nodes[0].label == "e");
  // Two factors in one dimension have no label of their own.
  const std::vector<int64_t> flat = {8};
  const auto z = append_node(
      graph, {"reshape", {*y}, {{"shape", flat}}, "z", "r", {}, {}}, diags);
  REQUIRE(z);
  CHECK(graph.values[static_cast<size_t>(*z)].axes.empty());
}

TEST_CASE("the first operand that has a label gives it") {
  Graph graph;
  Diagnostics diags;
  const int a = append_value(graph, input("a", {2, 3}, {"", "first"}));
  const int b = append_value(graph, input("b", {2, 3}, {"batch", "second"}));
  const auto sum =
      append_node(graph, {"add", {a, b}, {}, "s", "", {}, {}}, diags);
  REQUIRE(sum);
  CHECK(graph.values[static_cast<size_t>(*sum)].axes ==
        std::vector<std::string>{"batch", "first"});
}

TEST_CASE("what does not fit adds nothing") {
  Graph graph;
  Diagnostics diags;
  const int a = append_value(graph, input("a", {2}));
  const int b = append_value(graph, input("b", {3}));
  CHECK_FALSE(append_node(graph, {"add", {a, b}, {}, "s", "", {}, {}}, diags));
  CHECK(graph.nodes.empty());
  CHECK(graph.values.size() == 2);
  CHECK(diags.count(Severity::Error) == 1);
}

}  // namespace
}  // namespace shardplan
