// SPDX-License-Identifier: Apache-2.0
#include "graph/evaluate.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace shardplan {
namespace {

// Whether an operation only moves numbers (graph/op.h, `flops`).
bool only_moves(const Graph& graph, const GraphNode& node) {
  std::vector<Shape> shapes;
  for (const int operand : node.operands) {
    shapes.push_back(graph.values[static_cast<size_t>(operand)].shape);
  }
  return node.op->flops(shapes,
                        graph.values[static_cast<size_t>(node.result)].shape,
                        node.attributes) == 0;
}

}  // namespace

Tensor whole_of(const Evaluation& run, int value) {
  const auto v = static_cast<size_t>(value);
  const Value& of = run.graph->values[v];
  Tensor tensor =
      of.kind == Value::Kind::Result ? run.results[v] : run.read(value);
  SHARDPLAN_CHECK(tensor.storage != nullptr && tensor.shape == of.shape &&
                  tensor.element == element_of(run.arithmetic));
  return tensor;
}

void evaluate_node(Evaluation& run, int node) {
  const GraphNode& at = run.graph->nodes[static_cast<size_t>(node)];
  std::vector<Tensor> operands;
  for (const int operand : at.operands) {
    operands.push_back(whole_of(run, operand));
  }
  const RunContext context{run.arithmetic, &at.rule, {}, run.threads};
  const auto result = static_cast<size_t>(at.result);
  run.results.resize(run.graph->values.size());
  run.results[result] = at.op->run(operands, at.attributes, context);
}

std::vector<Tensor> evaluate(const Graph& graph, std::span<const Tensor> given,
                             Arithmetic arithmetic, int threads) {
  Evaluation run{&graph,
                 [&](int value) {
                   SHARDPLAN_CHECK(static_cast<size_t>(value) < given.size());
                   return given[static_cast<size_t>(value)];
                 },
                 arithmetic, threads};
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    evaluate_node(run, static_cast<int>(n));
  }
  run.results.resize(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == Value::Kind::Result) continue;
    run.results[v] = whole_of(run, static_cast<int>(v));
  }
  return std::move(run.results);
}

std::vector<bool> integer_values(const Graph& graph) {
  std::vector<bool> integers(graph.values.size());
  for (size_t v = 0; v < integers.size(); ++v) {
    integers[v] = graph.values[v].integers_below > 0;
  }
  for (const GraphNode& node : graph.nodes) {
    const bool moved =
        !node.operands.empty() &&
        std::all_of(node.operands.begin(), node.operands.end(),
                    [&](int v) { return integers[static_cast<size_t>(v)]; }) &&
        only_moves(graph, node);
    if (node.op->is_decision || moved) {
      integers[static_cast<size_t>(node.result)] = true;
    }
  }
  return integers;
}

}  // namespace shardplan
