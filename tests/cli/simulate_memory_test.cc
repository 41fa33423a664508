// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_memory.h"

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "graph/op.h"

namespace shardplan::cli {
namespace {

// x -> op -> y, both of `elements` elements.
Graph graph_of(const char* op, int64_t elements) {
  Graph graph;
  Value x;
  x.name = "x";
  x.shape = {elements};
  x.kind = Value::Kind::Input;
  Value y = x;
  y.name = "y";
  y.kind = Value::Kind::Result;
  y.node = 0;
  GraphNode node;
  node.op = find_op(op);
  node.operands = {0};
  node.result = 1;
  graph.values = {x, y};
  graph.nodes = {node};
  graph.outputs = {1};
  return graph;
}

bool fits(const Graph& graph, bool exact = false) {
  Diagnostics diags;
  const bool fine = fits_memory(graph, exact, {}, diags);
  CHECK(fine == diags.all().empty());
  for (const Diagnostic& each : diags.all()) {
    CHECK(each.code == Code::MemoryBudget);
  }
  return fine;
}

TEST_CASE("simulate memory: operands and result of one operation must fit") {
  constexpr int64_t kMiB = int64_t{1} << 20U;
  AllocationLimit limit;
  // 12 bytes of each number of the input, 16 of the result.
  limit.set(28 * kMiB);
  CHECK(fits(graph_of("silu", kMiB - 1000)));
  CHECK_FALSE(fits(graph_of("silu", kMiB + 1000)));
  CHECK(fits(graph_of("silu", kMiB + 1000), true));  // 8 and 16
}

TEST_CASE("simulate memory: a view takes nothing") {
  constexpr int64_t kMiB = int64_t{1} << 20U;
  AllocationLimit limit;
  limit.set(28 * kMiB);
  CHECK(fits(graph_of("reshape", 2 * kMiB)));
  CHECK_FALSE(fits(graph_of("silu", 2 * kMiB)));
}

TEST_CASE("simulate memory: results count until they are read last") {
  constexpr int64_t kMiB = int64_t{1} << 20U;
  // x -> y -> z -> w; where `y` is an output as well it stays.
  Graph graph = graph_of("silu", kMiB);
  for (int made = 2; made < 4; ++made) {
    Value value = graph.values[1];
    value.node = made - 1;
    graph.values.push_back(value);
    GraphNode node = graph.nodes[0];
    node.operands = {made - 1};
    node.result = made;
    graph.nodes.push_back(node);
  }
  graph.outputs = {3};
  AllocationLimit limit;
  limit.set(50 * kMiB);
  CHECK(fits(graph));  // 24 of the operand, 16 of the result
  graph.outputs = {1, 3};
  CHECK_FALSE(fits(graph));
}

TEST_CASE("simulate memory: sizes beyond 63 bits are no overflow") {
  Graph graph = graph_of("silu", int64_t{1} << 60U);
  CHECK_FALSE(fits(graph));
  graph.values[0].shape = {int64_t{1} << 40U, int64_t{1} << 40U};
  CHECK_FALSE(fits(graph));
}

}  // namespace
}  // namespace shardplan::cli
