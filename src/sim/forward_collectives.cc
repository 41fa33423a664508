// SPDX-License-Identifier: Apache-2.0
#include "sim/forward_collectives.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "core/fold.h"
#include "sim/transfers.h"

namespace shardplan {
namespace {

// Returns the parameter that a value is, is a part of, or is another form of,
// if any.
ValueId parameter_of(const Graph& graph, ValueId value) {
  while (true) {
    const Value& at = graph.values[value];
    if (at.kind == Value::Kind::Parameter) return value;
    if (at.kind == Value::Kind::Input) return {};
    const GraphNode& node = graph.nodes[at.node];
    if (node.operands.size() != 1) return {};
    value = node.operands[0];
  }
}

void add_parameters(const Graph& graph, NodeId node,
                    std::vector<std::string>& parameters) {
  if (!node) return;
  for (const ValueId operand : graph.nodes[node].operands) {
    const ValueId found = parameter_of(graph, operand);
    if (!found) continue;
    const std::string& name = graph.values[found].parameter;
    if (std::find(parameters.begin(), parameters.end(), name) ==
        parameters.end()) {
      parameters.push_back(name);
    }
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
  CollectiveUse use;
  use.kind = price.kind;
  use.axes = price.axes;
  use.cause = price.cause;
  const ValueId sent = parameter_of(graph, value);
  if (sent) {
    const std::string& name = graph.values[sent].parameter;
    use.what = folded_name(name);
    use.parameters.push_back(name);
    return use;
  }
  const std::vector<NodeId> products = source_products(graph, value);
  for (const NodeId node : products)
    add_parameters(graph, node, use.parameters);
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
    if (!at.node) continue;
    const int layer = graph.nodes[at.node].layer;
    if (layer >= 0) {
      each.layer = graph.layers[static_cast<size_t>(layer)].number;
    }
  }
  return placed;
}

// The collectives of the layers of a period, each with its layer's index in it.
using Sent = std::vector<std::pair<int64_t, const CollectiveUse*>>;

bool sends_equal(const Sent& a, const Sent& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) {
                      const CollectiveUse& x = *one.second;
                      const CollectiveUse& y = *other.second;
                      return one.first == other.first && x.kind == y.kind &&
                             x.axes == y.axes && x.cause == y.cause &&
                             x.what == y.what &&
                             x.after_product == y.after_product &&
                             x.bytes_per_device == y.bytes_per_device;
                    });
}

// Returns whether the second period sends what a neighbour sends.
bool is_steady(const std::vector<PlacedUse>& placed, const LayerCycle& cycle) {
  std::vector<Sent> periods(kPeriods);
  for (const PlacedUse& each : placed) {
    const int64_t period = each.layer < 0 ? -1 : period_of(cycle, each.layer);
    if (period < 0 || period >= kPeriods) continue;
    periods[static_cast<size_t>(period)].emplace_back(
        (each.layer - cycle.begin) % cycle.period, &each.use);
  }
  return sends_equal(periods[1], periods[2]) ||
         sends_equal(periods[0], periods[1]);
}

// Sums up equal uses. Returns nothing, with SP017 reported, if a sum exceeds 63
// bits.
std::optional<std::vector<CollectiveUse>> summed(
    const std::vector<PlacedUse>& placed,
    const std::optional<LayerCycle>& cycle, Diagnostics& diags) {
  using Key = std::tuple<CollectiveKind, AxisNames, Cause, std::string, bool>;
  std::map<Key, size_t> numbers;
  std::vector<CollectiveUse> uses;
  for (const PlacedUse& each : placed) {
    const CollectiveUse& use = each.use;
    const bool repeated =
        cycle && each.layer >= 0 && period_of(*cycle, each.layer) == 1;
    const int64_t times = repeated ? cycle->times : 1;
    const auto [entry, is_new] = numbers.emplace(
        Key(use.kind, use.axes, use.cause, use.what, use.after_product),
        uses.size());
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
