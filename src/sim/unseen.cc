// SPDX-License-Identifier: Apache-2.0
#include "sim/unseen.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "graph/elementwise.h"
#include "sim/execute.h"
#include "sim/verdict.h"
#include "spmd/groups.h"

namespace shardplan {
namespace {

const Value& value_of(const Graph& graph, int value) {
  return graph.values[static_cast<size_t>(value)];
}

// Whether a result is zero by what the graph says, whatever the values are: 0
// times x, and x less its own sum or maximum over a single number (softmax).
bool is_zero_by_definition(const Graph& graph, const GraphNode& node) {
  const std::string_view name = node.op->name;
  if (name == "scale") return number_of(node.attributes, "by", 1) == 0;
  if (name != "subtract") return false;
  if (node.operands[0] == node.operands[1]) return true;
  const Value& less = value_of(graph, node.operands[1]);
  if (less.node < 0) return false;
  const GraphNode& by = graph.nodes[static_cast<size_t>(less.node)];
  return (by.op->name == "max" || by.op->name == "mean" ||
          by.op->name == "sum") &&
         by.operands[0] == node.operands[0] &&
         element_count(less.shape) ==
             element_count(value_of(graph, node.operands[0]).shape);
}

// The operand without which a sum or a difference is the same.
std::optional<size_t> lost_operand(std::string_view op,
                                   const std::vector<Tensor>& whole) {
  const Tensor& result = whole.back();
  for (size_t lost = 0; lost < 2; ++lost) {
    Tensor rest = broadcast_to(whole[1 - lost], result.shape);
    if (op == "subtract" && lost == 0) {
      const Tensor negative = make_tensor(rest.element, rest.shape);
      map_unary<double>(rest, negative, 1, [](double x) { return -x; });
      rest = negative;
    }
    if (structural_error(result, rest) <= kMismatch) return lost;
  }
  return std::nullopt;
}

// Whether a device's part of a sum changes some row of it.
bool is_seen(const Tensor& part, const Tensor& sum) {
  const std::vector<double> scales = row_scales(sum);
  const std::vector<double> numbers = values_of(part);
  if (scales.empty() || numbers.size() % scales.size() != 0) return false;
  const size_t width = numbers.size() / scales.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::abs(numbers[i]) > kMismatch * scales[i / width]) return true;
  }
  return false;
}

// Rows that an index names come from one device each, and zeros from others.
bool selects(std::string_view op) {
  return op == "embedding" || op == "take" || op == "dispatch" ||
         op == "combine";
}

// Few integers may be alike by chance.
bool may_be_alike(const Value& value, bool integers, const Tensor& shard) {
  constexpr double kBits = 20;
  if (!integers) return false;
  if (value.integers_below == 0) return true;
  return static_cast<double>(shard.elements()) *
             std::log2(static_cast<double>(value.integers_below)) <
         kBits;
}

}  // namespace

std::optional<Unseen> unseen_in_node(const Graph& graph, int n,
                                     const std::vector<Tensor>& whole,
                                     const std::vector<NumberKinds>& kinds,
                                     const std::vector<bool>& integers) {
  const GraphNode& node = graph.nodes[static_cast<size_t>(n)];
  if (integers[static_cast<size_t>(node.result)]) return std::nullopt;
  bool zero_operand = false;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto v = static_cast<size_t>(node.operands[i]);
    zero_operand = zero_operand || (kinds[i].all_zero && !integers[v]);
  }
  // What follows of zeros was found where they are.
  if (zero_operand || is_zero_by_definition(graph, node)) return std::nullopt;
  if (kinds.back().all_zero) {
    return Unseen{Unseen::Kind::ZeroResult, node.result};
  }
  const std::string_view op = node.op->name;
  if ((op != "add" && op != "subtract") || kinds.back().elements == 0) {
    return std::nullopt;
  }
  const auto lost = lost_operand(op, whole);
  if (!lost) return std::nullopt;
  return Unseen{Unseen::Kind::LostTerm, node.result, node.operands[*lost]};
}

std::optional<Unseen> unseen_parts(const Program& program,
                                   const Instruction& at,
                                   const DeviceTensors& made,
                                   const Tensor& whole) {
  const Register& result = program.registers[static_cast<size_t>(at.result)];
  if (at.kind != Instruction::Kind::Compute || at.overlap != Overlap::Off ||
      result.layout.partial.empty() ||
      result.layout.reduction != Reduction::Sum || whole.elements() == 0 ||
      selects(program.graph->nodes[static_cast<size_t>(at.node)].op->name)) {
    return std::nullopt;
  }
  // Parts that are handed on were looked at where they came up.
  for (const int number : at.operands) {
    const Layout& from = program.registers[static_cast<size_t>(number)].layout;
    if (!from.partial.empty()) return std::nullopt;
  }
  for (const auto& group : device_groups(program.mesh, result.layout.partial)) {
    int seen = 0;
    for (const int device : group) {
      const Tensor sum = shard_of(program.mesh, result.layout, whole, device);
      seen += is_seen(made[static_cast<size_t>(device)], sum);
      if (seen > 1) return std::nullopt;
    }
  }
  return Unseen{Unseen::Kind::LostParts, result.value, -1,
                result.layout.partial};
}

std::optional<Unseen> unseen_shards(const Program& program,
                                    const Instruction& at,
                                    const DeviceTensors& made,
                                    const std::vector<bool>& integers) {
  const Register& result = program.registers[static_cast<size_t>(at.result)];
  const bool loads = at.kind == Instruction::Kind::Load;
  const auto v = static_cast<size_t>(result.value);
  // Results may be alike by what they are, such as that of a row for all
  // tokens.
  if (program.graph->values[v].kind == Value::Kind::Result) {
    return std::nullopt;
  }
  if ((!loads && at.kind != Instruction::Kind::Slice) ||
      !result.layout.partial.empty() || made[0].elements() == 0) {
    return std::nullopt;
  }
  if (may_be_alike(program.graph->values[v], integers[v], made[0])) {
    return std::nullopt;
  }
  AxisNames alike;
  for (const AxisName& axis : loads ? axes_in_use(result.layout) : at.axes) {
    bool differ = false;
    for (const auto& group : device_groups(program.mesh, {axis})) {
      const Tensor& first = made[static_cast<size_t>(group[0])];
      differ =
          differ || std::any_of(group.begin(), group.end(), [&](int device) {
            return !bitwise_equal(first, made[static_cast<size_t>(device)]);
          });
      if (differ) break;
    }
    if (!differ) alike.push_back(axis);
  }
  if (alike.empty()) return std::nullopt;
  return Unseen{Unseen::Kind::AlikeShards, result.value, -1, alike};
}

}  // namespace shardplan
