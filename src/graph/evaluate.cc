// SPDX-License-Identifier: Apache-2.0
#include "graph/evaluate.h"

#include "base/check.h"

namespace shardplan {

std::vector<Tensor> evaluate(const Graph& graph, std::span<const Tensor> given,
                             Arithmetic arithmetic, int threads) {
  std::vector<Tensor> values(graph.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (graph.values[i].kind == Value::Kind::Result) continue;
    SHARDPLAN_CHECK(i < given.size() &&
                    given[i].shape == graph.values[i].shape &&
                    given[i].element == element_of(arithmetic));
    values[i] = given[i];
  }
  std::vector<Tensor> operands;
  for (const GraphNode& node : graph.nodes) {
    operands.clear();
    for (const int operand : node.operands) {
      operands.push_back(values[static_cast<size_t>(operand)]);
    }
    const RunContext context{arithmetic, &node.rule, {}, threads};
    values[static_cast<size_t>(node.result)] =
        node.op->run(operands, node.attributes, context);
  }
  return values;
}

}  // namespace shardplan
