// SPDX-License-Identifier: Apache-2.0
#include "sim/isolate.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "spmd/propagate.h"

namespace shardplan {
namespace {

Layout settled(Layout layout) {
  layout.partial.clear();
  layout.reduction = Reduction::Sum;
  return layout;
}

// How many indices mean something to an operation that selects by its second
// operand; 0 for others. Fresh indices beyond them would select nothing.
int64_t index_limit(const Graph& graph, const GraphNode& node) {
  const auto shape_of = [&](int value) -> const Shape& {
    return graph.values[static_cast<size_t>(value)].shape;
  };
  const std::string_view name = node.op->name;
  if (name == "embedding" || name == "combine") {
    return shape_of(node.operands[0])[0];
  }
  if (name == "take") return shape_of(node.operands[0]).back();
  return name == "dispatch" ? shape_of(node.result)[0] : 0;
}

}  // namespace

Isolated isolate(const Program& program, int node,
                 const PartitionOptions& options) {
  const Graph& whole = *program.graph;
  const std::vector<bool> weights = find_weights(whole);
  Isolated one{std::make_unique<Graph>(), {}, {program.mesh}};
  Graph& graph = *one.graph;
  graph.name = whole.name;
  graph.nodes = {whole.nodes[static_cast<size_t>(node)]};
  GraphNode& only = graph.nodes[0];
  // What comes from within a shard_map is no value that could be made afresh:
  // only the whole graph shows what is done with it.
  if (only.inner_operand >= 0) only.shard_map.reset();
  only.inner_operand = -1;
  WantedLayouts wanted;
  const auto add = [&](int value, Value::Kind kind) {
    const auto v = static_cast<size_t>(value);
    graph.values.push_back(whole.values[v]);
    graph.values.back().kind = kind;
    graph.values.back().node = kind == Value::Kind::Result ? 0 : -1;
    wanted.push_back(settled(program.layouts[v]));
    return static_cast<int>(graph.values.size()) - 1;
  };
  for (int& operand : only.operands) {
    const auto known =
        std::find(one.operands.begin(), one.operands.end(), operand);
    if (known != one.operands.end()) {
      operand = static_cast<int>(known - one.operands.begin());
      continue;
    }
    one.operands.push_back(operand);
    operand = add(operand, weights[static_cast<size_t>(operand)]
                               ? Value::Kind::Parameter
                               : Value::Kind::Input);
  }
  only.result = add(only.result, Value::Kind::Result);
  graph.outputs = {only.result};
  if (const int64_t limit = index_limit(graph, only); limit > 0) {
    graph.values[static_cast<size_t>(only.operands[1])].integers_below = limit;
  }
  one.program = partition(graph, program.mesh, wanted, options);
  return one;
}

}  // namespace shardplan
