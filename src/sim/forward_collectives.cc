// SPDX-License-Identifier: Apache-2.0
#include "sim/forward_collectives.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "core/fold.h"
#include "sim/transfers.h"

namespace shardplan {
namespace {

// Returns the parameter that a value is, is a part of, or is another form of,
// if any.
ValueId parameter_of(const Graph& graph, ValueId value) {
  while (graph.values[value].kind == Value::Kind::Result) {
    const GraphNode& node = graph.nodes[graph.values[value].node];
    if (node.operands.size() != 1) return {};
    value = node.operands[0];
  }
  return graph.values[value].kind == Value::Kind::Parameter ? value : ValueId();
}

void add_parameters(const Graph& graph, NodeId node,
                    std::vector<std::string>& parameters) {
  if (!node) return;
  for (const ValueId operand : graph.nodes[node].operands) {
    const ValueId found = parameter_of(graph, operand);
    if (!found) continue;
    const std::string& name = graph.values[found].parameter;
    if (!contains(parameters, name)) parameters.push_back(name);
  }
}

// The most values that are searched for the products behind a value.
constexpr size_t kMaxSearched = 16;

// Returns the nearest nodes with parameters that a value is computed from.
std::vector<NodeId> source_products(const Graph& graph, ValueId value) {
  std::vector<NodeId> products;
  std::vector<ValueId> values = {value};
  for (size_t i = 0; i < values.size() && i < kMaxSearched; ++i) {
    const Value& at = graph.values[values[i]];
    if (at.kind != Value::Kind::Result) continue;
    std::vector<std::string> parameters;
    add_parameters(graph, at.node, parameters);
    if (!parameters.empty()) {
      products.push_back(at.node);
      continue;
    }
    const GraphNode& node = graph.nodes[at.node];
    values.insert(values.end(), node.operands.begin(), node.operands.end());
  }
  return products;
}

// Returns the description of a collective, without its count and bytes.
CollectiveUse use_of(const Program& program, const CollectivePrice& price) {
  const Graph& graph = *program.graph;
  const Instruction& at = program.instructions[price.instruction];
  const ValueId value = program.registers[at.operands[0]].value;
  CollectiveUse use{
      .kind = price.kind, .axes = price.axes, .cause = price.cause};
  if (const ValueId sent = parameter_of(graph, value)) {
    const std::string& name = graph.values[sent].parameter;
    use.what = folded_name(name);
    use.parameters.push_back(name);
    return use;
  }
  const std::vector<NodeId> products = source_products(graph, value);
  for (const NodeId node : products) {
    add_parameters(graph, node, use.parameters);
  }
  if (use.cause == Cause::PartialSum && products.size() == 1) {
    use.what = folded_name(use.parameters.front());
    use.after_product = true;
    return use;
  }
  use.what = folded_name(graph.values[value].whole());
  add_parameters(graph, at.node, use.parameters);
  return use;
}

// A collective and the layer that it belongs to.
struct PlacedUse {
  CollectiveUse use;
  int64_t layer = -1;  // -1: outside of layers
};

std::vector<PlacedUse> uses_in(const Program& program, Storage storage) {
  std::vector<PlacedUse> placed;
  const Graph& graph = *program.graph;
  for (const CollectivePrice& one : price(program, storage, storage)) {
    const Instruction& at = program.instructions[one.instruction];
    PlacedUse& each = placed.emplace_back();
    each.use = use_of(program, one);
    each.use.count = 1;
    // Fits: a device sends at most twice what it holds (can_be_counted).
    const Int128 devices = program.mesh.devices();
    each.use.bytes_per_device =
        static_cast<int64_t>((one.bytes + devices - 1) / devices);
    const int layer = at.node ? graph.nodes[at.node].layer : -1;
    if (layer >= 0) each.layer = nth(graph.layers, layer).number;
  }
  return placed;
}

// Collectives with one key are summed up.
using Key = std::tuple<CollectiveKind, AxisNames, Cause, std::string, bool>;
Key key_of(const CollectiveUse& use) {
  return {use.kind, use.axes, use.cause, use.what, use.after_product};
}

// Returns whether the second period sends what a neighbour sends.
bool is_steady(const std::vector<PlacedUse>& placed, const LayerCycle& cycle) {
  PeriodItems<std::pair<Key, int64_t>> sent;
  for (const auto& [use, layer] : placed) {
    sent.add(cycle, layer, {key_of(use), use.bytes_per_device});
  }
  return sent.is_steady();
}

// Sums up equal uses. Returns nothing, with SP017 reported, if a sum exceeds 63
// bits.
std::optional<std::vector<CollectiveUse>> summed(
    const std::vector<PlacedUse>& placed,
    const std::optional<LayerCycle>& cycle, Diagnostics& diags) {
  std::map<Key, size_t> numbers;
  std::vector<CollectiveUse> uses;
  for (const auto& [use, layer] : placed) {
    const bool repeated = cycle && period_of(*cycle, layer) == 1;
    const int64_t times = repeated ? cycle->times : 1;
    const auto [entry, is_new] = numbers.emplace(key_of(use), uses.size());
    if (is_new) {
      uses.push_back(use);
      uses.back().count = 0;
      uses.back().bytes_per_device = 0;
    }
    CollectiveUse& sum = uses[entry->second];
    sum.count += times;
    const auto more = checked_mul(times, use.bytes_per_device);
    const auto all =
        more ? checked_add(sum.bytes_per_device, *more) : std::nullopt;
    if (!all) {
      return diags.error(Code::MemoryBudget, {},
                         "the bytes that a device sends in one forward pass "
                         "exceed 63 bits");
    }
    sum.bytes_per_device = *all;
  }
  return uses;
}

}  // namespace

std::optional<ForwardCollectives> forward_collectives(
    ForwardGraphs& model, const ForwardPlan& plan, Diagnostics& diags,
    EqualLayers equal_layers) {
  const auto found = partition_layers(
      model, plan,
      [&](const Program& program, const LayerCycle& cycle) {
        return is_steady(uses_in(program, plan.storage), cycle);
      },
      equal_layers, diags);
  if (!found) return std::nullopt;
  auto uses =
      summed(uses_in(found->program, plan.storage), found->cycle, diags);
  if (!uses) return std::nullopt;
  return ForwardCollectives{*std::move(uses), found->layers};
}

}  // namespace shardplan
