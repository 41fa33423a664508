// SPDX-License-Identifier: Apache-2.0
// Appends nodes, applies shard_maps to them, and evaluates them.
#include "graph/graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

std::string label_of(const Graph& graph, const GraphNode& node, int factor) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value& operand = graph.values[node.operands[i]];
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
  if (std::ranges::all_of(labels, &std::string::empty)) labels.clear();
  return labels;
}

// Returns the type of the result of an operation on these operands and shapes.
NumberType type_of(const Graph& graph, const GraphNode& node, ShapeSpan shapes,
                   const Shape& result) {
  if (node.op->is_decision || node.op->gives_integers) {
    return NumberType::Integer;
  }
  if (node.part == OpPart::AdapterInput || node.part == OpPart::Adapter) {
    return NumberType::Adapter;
  }
  const bool moves_integers =
      !node.operands.empty() &&
      std::ranges::all_of(
          node.operands,
          [&](ValueId v) { return graph.values[v].is_integer(); }) &&
      node.op->flops(shapes, result, node.attributes) == 0;
  return moves_integers ? NumberType::Integer : NumberType::Activation;
}

// Returns the index in the file's operands of a node's operand `index`: the
// same index if the value is there, because a value may be read twice. Returns
// nullopt if the previous node computed it.
std::optional<size_t> place_of(const std::vector<ValueId>& operands,
                               ValueId value, size_t index) {
  if (index < operands.size() && operands[index] == value) return index;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == value) return i;
  }
  return std::nullopt;
}

void map_node(GraphNode& node, const ShardMapUse& written,
              const std::vector<ValueId>& operands) {
  node.shard_map = ShardMapUse{{}, written.out_spec, written.psum};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto place = place_of(operands, node.operands[i], i);
    if (!place) node.inner_operand = i;
    node.shard_map->in_specs.push_back(place ? written.in_specs[*place]
                                             : written.out_spec);
  }
}

// Returns an axis that `spec`, or `spec` and `psum` together, names twice.
std::optional<AxisName> repeated_axis(const PartitionSpec& spec,
                                      AxisNames used) {
  for (const AxisName& axis : axes_in(spec)) {
    if (contains(used, axis)) return axis;
    used.push_back(axis);
  }
  return std::nullopt;
}

bool spec_fits(const DescribedOp& op, const PartitionSpec& spec,
               const AxisNames& psum, const Value& value, Diagnostics& diags) {
  if (const auto axis = repeated_axis(spec, psum)) {
    diags
        .error(Code::InvalidGraph, op.shard_map_where,
               "`shard_map` uses axis " + in_backticks(*axis) + " twice for `" +
                   value.name + "`")
        .fact("its spec is " + spec_text(spec))
        .help(
            "an axis in `psum` holds partial sums: it cannot also shard a "
            "dimension");
    return false;
  }
  if (spec.dims.size() <= value.shape.size()) return true;
  diags.error(Code::InvalidGraph, op.shard_map_where,
              spec_text(spec) + " is longer than the rank of `" + value.name +
                  "` " + shape_text(value.shape));
  return false;
}

}  // namespace

const GraphLayer* layer_of(const Graph& graph, ValueId value) {
  const NodeId node = graph.values[value].node;
  if (!node) return nullptr;
  const int layer = graph.nodes[node].layer;
  return layer < 0 ? nullptr : &nth(graph.layers, layer);
}

const std::string& output_name(const Graph& graph, ValueId value) {
  const auto index =
      std::ranges::find(graph.outputs, value) - graph.outputs.begin();
  return index < std::ssize(graph.output_names) ? nth(graph.output_names, index)
                                                : graph.values[value].name;
}

ValueId append_value(Graph& graph, Value value) {
  if (value.integers_below > 0) value.type = NumberType::Integer;
  if (value.kind == Value::Kind::Parameter) {
    value.learned = value.is_weight = true;
  }
  value.step_at = value.name.find(':');
  return graph.values.push_back(std::move(value));
}

std::optional<ValueId> append_node(Graph& graph, NewNode node,
                                   Diagnostics& diags) {
  GraphNode added;
  added.op = find_op(node.op);
  SHARDPLAN_CHECK(added.op != nullptr);
  std::vector<Shape> shapes;
  for (const ValueId operand : node.operands) {
    shapes.push_back(graph.values[operand].shape);
  }
  auto shape = added.op->infer(shapes, node.attributes, node.where, diags);
  if (!shape) return std::nullopt;
  if (!element_count(*shape)) {
    return diags
        .error(Code::InvalidGraph, node.where,
               "the result of `" + node.label + "` has more than 2^63 elements")
        .fact("its shape is " + shape_text(*shape));
  }
  added.rule = added.op->rule(shapes, node.attributes);
  added.attributes = std::move(node.attributes);
  added.operands = std::move(node.operands);
  added.label = std::move(node.label);
  added.where = node.where;
  added.part = node.part;

  Value result;
  result.name = std::move(node.name);
  result.type = type_of(graph, added, shapes, *shape);
  result.is_weight = true;
  for (const ValueId operand : added.operands) {
    result.learned = result.learned || graph.values[operand].learned;
    result.is_weight = result.is_weight && graph.values[operand].is_weight;
  }
  result.shape = *std::move(shape);
  result.axes = labels_of(graph, added);
  result.where = node.name_where;
  result.node = NodeId(graph.nodes.size());
  const auto spec = added.attributes.find("spec");
  if (spec != added.attributes.end()) {
    result.spec = std::get<PartitionSpec>(spec->second);
  }
  added.result = append_value(graph, std::move(result));
  graph.nodes.push_back(std::move(added));
  return graph.nodes.back().result;
}

bool may_be_mapped(const DescribedOp& op, bool mappable, Diagnostics& diags) {
  if (!op.shard_map) return true;
  const Span where = op.shard_map_where;
  const OpDef* const primitive = find_op(op.op);
  if (!mappable || (primitive != nullptr && primitive->is_constraint)) {
    auto problem = diags.error(Code::InvalidGraph, where,
                               "`shard_map` does not apply to `" + op.op + "`");
    if (mappable) {
      problem.fact("a constraint computes nothing");
    } else {
      problem.fact("it expands to several operations with sums in between")
          .help("write out these operations, each with its own `shard_map`");
    }
    return false;
  }
  const size_t specs = op.shard_map->in_specs.size();
  if (specs == op.operands.size()) return true;
  diags
      .error(Code::InvalidGraph, where,
             plural(static_cast<int64_t>(specs), "spec") +
                 " in `in_specs` for " +
                 plural(static_cast<int64_t>(op.operands.size()), "operand"))
      .help("give `in_specs` one spec per operand; `[]` shards nothing");
  return false;
}

bool map_nodes(Graph& graph, NodeId first, const DescribedOp& op,
               const std::vector<ValueId>& operands, Diagnostics& diags) {
  if (!op.shard_map) return true;
  const ShardMapUse& map = *op.shard_map;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!spec_fits(op, map.in_specs[i], {}, graph.values[operands[i]], diags)) {
      return false;
    }
  }
  for (const NodeId n : graph.nodes.ids(first)) {
    GraphNode& node = graph.nodes[n];
    if (!spec_fits(op, map.out_spec, map.psum, graph.values[node.result],
                   diags)) {
      return false;
    }
    map_node(node, map, operands);
  }
  return true;
}

Tensor whole_of(const Evaluation& run, ValueId value) {
  const Value& of = run.graph->values[value];
  Tensor tensor =
      of.kind == Value::Kind::Result ? run.results[value] : run.read(value);
  SHARDPLAN_CHECK(tensor.storage != nullptr && tensor.shape == of.shape &&
                  tensor.element == element_of(run.arithmetic));
  return tensor;
}

void evaluate_node(Evaluation& run, NodeId node) {
  const GraphNode& at = run.graph->nodes[node];
  std::vector<Tensor> operands;
  for (const ValueId operand : at.operands) {
    operands.push_back(whole_of(run, operand));
  }
  const RunContext context{run.arithmetic, &at.rule, {}, run.threads};
  run.results.resize(run.graph->values.size());
  run.results[at.result] = at.op->run(operands, at.attributes, context);
}

}  // namespace shardplan
