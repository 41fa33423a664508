// SPDX-License-Identifier: Apache-2.0
#include "graph/append.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace shardplan {
namespace {

bool has_label(const std::vector<std::string>& labels) {
  return std::any_of(labels.begin(), labels.end(),
                     [](const std::string& label) { return !label.empty(); });
}

std::string label_of(const Graph& graph, const GraphNode& node, int factor) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value& operand = graph.values[static_cast<size_t>(node.operands[i])];
    if (operand.axes.empty()) continue;
    const std::vector<DimFactors>& dims = node.rule.operands[i];
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      if (dims[dim] == DimFactors{factor} && !operand.axes[dim].empty()) {
        return operand.axes[dim];
      }
    }
  }
  return "";
}

std::vector<std::string> labels_of(const Graph& graph, const GraphNode& node) {
  std::vector<std::string> labels;
  for (const DimFactors& factors : node.rule.result) {
    labels.push_back(
        factors.size() == 1 ? label_of(graph, node, factors.front()) : "");
  }
  if (!has_label(labels)) labels.clear();
  return labels;
}

}  // namespace

int append_value(Graph& graph, Value value) {
  graph.values.push_back(std::move(value));
  return static_cast<int>(graph.values.size()) - 1;
}

std::optional<int> append_node(Graph& graph, NewNode node, Diagnostics& diags) {
  GraphNode added;
  added.op = find_op(node.op);
  SHARDPLAN_CHECK(added.op != nullptr);
  std::vector<Shape> shapes;
  for (const int operand : node.operands) {
    shapes.push_back(graph.values[static_cast<size_t>(operand)].shape);
  }
  auto shape = added.op->infer(shapes, node.attributes, node.where, diags);
  if (!shape) return std::nullopt;
  if (!element_count(*shape)) {
    return diags
        .error(Code::InvalidGraph, node.where,
               "the result of `" + node.label + "` has more than 2^63 elements")
        .fact("its sizes are " + shape_text(*shape));
  }
  added.rule = added.op->rule(shapes, node.attributes);
  added.attributes = std::move(node.attributes);
  added.operands = std::move(node.operands);
  added.label = std::move(node.label);
  added.where = node.where;

  Value result;
  result.name = std::move(node.name);
  result.shape = *std::move(shape);
  result.axes = labels_of(graph, added);
  result.where = node.name_where;
  result.node = static_cast<int>(graph.nodes.size());
  const auto spec = added.attributes.find("spec");
  if (spec != added.attributes.end()) {
    result.spec = std::get<PartitionSpec>(spec->second);
  }
  added.result = append_value(graph, std::move(result));
  graph.nodes.push_back(std::move(added));
  return graph.nodes.back().result;
}

}  // namespace shardplan
