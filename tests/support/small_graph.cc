// SPDX-License-Identifier: Apache-2.0
#include "tests/support/small_graph.h"

#include <utility>

#include "base/checked.h"
#include "graph/composites.h"
#include "graph/graph.h"
#include "tests/support/builders.h"
#include "tests/support/whole_values.h"

namespace shardplan::testing {
namespace {

std::string_view cause_text(Cause cause) {
  switch (cause) {
    case Cause::PartialSum:
      return "partial sum";
    case Cause::WeightUse:
      return "weight use";
    case Cause::Experts:
      return "experts";
    case Cause::Declared:
      return "declared";
    default:
      return "implicit";
  }
}

}  // namespace

Layout layout(std::string_view spec_text, size_t rank) {
  Layout result{spec(spec_text), {}, Reduction::Sum};
  result.spec.dims.resize(rank);
  return result;
}

Layout partial(std::string_view spec_text, size_t rank, AxisNames axes) {
  Layout result = layout(spec_text, rank);
  result.partial = std::move(axes);
  return result;
}

SmallGraph::SmallGraph(std::string_view mesh_text)
    : mesh(testing::mesh(mesh_text)) {
  graph.name = "small";
}

ValueId SmallGraph::add(Value::Kind kind, const Shape& shape,
                        std::string_view spec_text, int64_t below) {
  Value value;
  value.name = (kind == Value::Kind::Input ? "x" : "w") +
               std::to_string(graph.values.size());
  value.shape = shape;
  value.kind = kind;
  value.integers_below = below;
  const ValueId number = append_value(graph, std::move(value));
  want(number, spec_text);
  return number;
}

ValueId SmallGraph::input(const Shape& shape, std::string_view spec_text,
                          int64_t below) {
  return add(Value::Kind::Input, shape, spec_text, below);
}

ValueId SmallGraph::parameter(const Shape& shape, std::string_view spec_text) {
  return add(Value::Kind::Parameter, shape, spec_text, 0);
}

ValueId SmallGraph::node(std::string_view op, std::vector<ValueId> operands,
                         Attributes attributes) {
  Diagnostics diags;
  const std::string name = "v" + std::to_string(graph.values.size());
  const auto result = append_node(
      graph,
      {op, std::move(operands), std::move(attributes), name, name, {}, {}},
      diags);
  SHARDPLAN_CHECK(result.has_value());
  return *result;
}

ValueId SmallGraph::einsum(std::string_view equation, ValueId a, ValueId b) {
  return node("einsum", {a, b}, {{"equation", std::string(equation)}});
}

ValueId SmallGraph::composite(std::string_view name,
                              std::vector<ValueId> operands,
                              Attributes attributes) {
  Diagnostics diags;
  const std::string result = "v" + std::to_string(graph.values.size());
  const CompositeDef* def = find_composite(name);
  SHARDPLAN_CHECK(def != nullptr);
  const auto results = expand(*def,
                              {std::move(operands),
                               std::move(attributes),
                               {result},
                               {Span{}},
                               result,
                               {}},
                              graph, diags);
  SHARDPLAN_CHECK(results.has_value());
  return results->at(0);
}

ValueId SmallGraph::constrained(ValueId value, std::string_view spec_text) {
  const ValueId result =
      node("constraint", {value}, {{"spec", spec(spec_text)}});
  want(result, spec_text);
  return result;
}

void SmallGraph::want(ValueId value, std::string_view spec_text) {
  if (!wanted.has(value)) wanted.resize(value.index() + 1);
  wanted[value] =
      layout_of(mesh, spec(spec_text), graph.values[value].shape.size());
}

Program SmallGraph::plan(const PartitionOptions& options) {
  wanted.resize(graph.values.size());
  graph.outputs = unread_results(graph);
  return partition(graph, mesh, wanted, options);
}

PerValue<Tensor> SmallGraph::values(ValueSource source, int64_t seed) const {
  Diagnostics diags;
  auto made = make_values(graph, source, seed, diags);
  SHARDPLAN_CHECK(made.has_value());
  return *std::move(made);
}

std::string moves(const Program& program) {
  std::string text;
  for (const Instruction& at : program.instructions) {
    const bool overlapped =
        at.kind == Instruction::Kind::Compute && at.overlap != Overlap::Off;
    if (at.kind != Instruction::Kind::Collective && !overlapped) continue;
    ValueId value = program.registers[at.result].value;
    if (overlapped && at.overlapped) {
      value = program.registers[at.operands[*at.overlapped]].value;
    }
    if (!text.empty()) text += "; ";
    if (overlapped) text += "overlapped ";
    text += std::string(collective_name(at.collective)) + " over " +
            axes_text(at.axes) + " of " + program.graph->values[value].name +
            " (" + std::string(cause_text(at.cause)) + ")";
    if (at.rematerializes) text += ", to be cut again";
  }
  return text;
}

std::vector<ValueId> unread_results(const Graph& graph) {
  PerValue<bool> read(graph.values.size());
  for (const GraphNode& node : graph.nodes) {
    for (const ValueId operand : node.operands) {
      read[operand] = true;
    }
  }
  std::vector<ValueId> unread;
  for (const GraphNode& node : graph.nodes) {
    if (!read[node.result]) unread.push_back(node.result);
  }
  return unread;
}

}  // namespace shardplan::testing
