// SPDX-License-Identifier: Apache-2.0
#include "sim/repeated_biases.h"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/built_graph.h"

namespace shardplan {
namespace {

// Names of repeated biases of a shipped graph.
std::string repeated(const std::string& name) {
  const auto built = testing::shipped_graph(name);
  REQUIRE_MESSAGE(built->graph, built->messages);
  std::string names;
  for (const int value : repeated_biases(*built->graph)) {
    names += built->graph->values[static_cast<size_t>(value)].name + " ";
  }
  return names;
}

TEST_CASE("TPDense repeats its bias in mode scatter, and nothing else does") {
  CHECK(repeated("tp_dense_scatter") == "bias ");
  for (const char* name : {"tp_dense_gather", "tp_dense_local",
                           "tp_async_dense_gather", "tp_async_dense_scatter",
                           "parallel_linear", "mlp", "attention", "moe"}) {
    CHECK_MESSAGE(repeated(name).empty(), name);
  }
}

// Whether b [3, 4] is repeated, summed and added to a product like this.
bool is_repeated(const std::string& ops) {
  const auto built = testing::built_graph(
      "graph: g\ninputs: {x: [2, 3, 5], z: [2, 4]}\n"
      "parameters: {w: [3, 5, 4], b: [3, 4]}\nops:\n" +
      ops);
  REQUIRE_MESSAGE(built->graph, built->messages);
  return !repeated_biases(*built->graph).empty();
}

TEST_CASE("a repeated bias is found in other clothes, and only there") {
  const std::string product =
      "  - {op: einsum, in: [x, w], out: p, equation: 'btk,tkj->bj'}\n";
  const std::string summed = "  - {op: sum, in: b, out: s, dims: [0]}\n";
  CHECK(is_repeated(product + summed + "  - {op: add, in: [s, p], out: y}\n"));
  CHECK(is_repeated(product + "  - {op: scale, in: p, out: q, by: 2}\n" +
                    summed + "  - {op: add, in: [q, s], out: y}\n"));
  CHECK_FALSE(
      is_repeated(product + summed + "  - {op: add, in: [z, s], out: y}\n"));
  CHECK_FALSE(is_repeated(product + summed +
                          "  - {op: multiply, in: [p, s], out: y}\n"));
  CHECK_FALSE(is_repeated(
      "  - {op: einsum, in: [x, w], out: p, equation: 'btk,tkj->btj'}\n" +
      summed + "  - {op: add, in: [p, s], out: y}\n"));
}

}  // namespace
}  // namespace shardplan
