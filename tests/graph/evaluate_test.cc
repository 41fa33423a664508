// SPDX-License-Identifier: Apache-2.0
#include "graph/evaluate.h"

#include <doctest/doctest.h>

#include "tests/support/built_graph.h"

namespace shardplan {
namespace {

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
    std::vector<Tensor> given(built->graph->values.size());
    const auto give = [&](const char* name, std::vector<double> numbers) {
      given[static_cast<size_t>(built->value(name))] =
          make_tensor(element, {2, 2}, numbers);
    };
    give("x", {1, 2, 3, 4});
    give("w", {5, 6, 7, 8});
    const auto values = evaluate(*built->graph, given, arithmetic);
    const auto numbers = [&](const char* name) {
      return values_of(values.at(static_cast<size_t>(built->value(name))));
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
    std::vector<Tensor> given(built->graph->values.size());
    for (size_t v = 0; v < given.size(); ++v) {
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
    for (size_t v = 0; v < one.size(); ++v) {
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
  const std::vector<bool> integers = integer_values(*built->graph);
  const auto is_integer = [&](const char* name) {
    return integers[static_cast<size_t>(built->value(name))];
  };
  for (const char* name : {"ids", "flat"}) CHECK(is_integer(name));
  for (const char* name : {"x", "w", "rows", "y", "z"}) {
    CHECK_FALSE(is_integer(name));
  }
}

}  // namespace
}  // namespace shardplan
