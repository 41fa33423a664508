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

}  // namespace
}  // namespace shardplan
