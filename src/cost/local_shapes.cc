// SPDX-License-Identifier: Apache-2.0
#include "cost/local_shapes.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/checked.h"
#include "base/words.h"
#include "graph/op.h"

namespace shardplan {
namespace {

// Returns the region of attention that contains a product, or null.
const Region* attention_of(const Graph& graph, NodeId node) {
  for (const Region& region : graph.regions) {
    if (region.kind == Region::Kind::Attention &&
        contains(region.nodes, node)) {
      return &region;
    }
  }
  return nullptr;
}

NodeId last_product(const Graph& graph, const Region& region) {
  const auto found =
      std::find_if(region.nodes.rbegin(), region.nodes.rend(),
                   [&](NodeId n) { return multiplies_values(graph, n); });
  return found == region.nodes.rend() ? NodeId() : *found;
}

}  // namespace

LocalProduct local_product(const ProgramView& view, InstructionId i) {
  const GraphNode& node = view.node(i);
  const Instruction& made = view.at(i);
  const size_t count = node.rule.factors.size();
  std::vector<std::array<bool, 3>> in(count);
  const auto mark = [&](const std::vector<DimFactors>& dims, size_t which) {
    for (const DimFactors& dim : dims) {
      for (const int f : dim) nth(in, f).at(which) = true;
    }
  };
  mark(node.rule.operands.front(), 0);
  mark(node.rule.operands.back(), 1);
  mark(node.rule.result, 2);
  LocalProduct product;
  ProductShape& shape = product.shape;
  for (size_t f = 0; f < count; ++f) {
    double cut = 1;
    if (f < made.factor_axes.size()) {
      for (const AxisName& axis : made.factor_axes[f]) {
        cut *= static_cast<double>(view.program->mesh.size_of(axis));
      }
    }
    double& part = !in[f][2]              ? shape.k
                   : in[f][0] && in[f][1] ? shape.groups
                   : in[f][0]             ? shape.m
                                          : shape.n;
    part *= static_cast<double>(node.rule.factors[f].size) / cut;
    product.parts *= cut;
  }
  double& tokens = view.reg(made.operands[0]).weight ? shape.n : shape.m;
  product.rows = tokens * view.reg(made.result).filled;
  tokens = std::max(product.rows, 1.0);
  return product;
}

AttentionShape local_attention(const ProgramView& view, const Region& region,
                               const PerNode<RegisterId>& result_of) {
  const Graph& graph = view.graph();
  AttentionShape shape;
  shape.head_dim = 0;
  const NodeId last = last_product(graph, region);
  for (const NodeId n : region.nodes) {
    const GraphNode& node = graph.nodes[n];
    if (node.op->is_mask) {
      shape.causal = true;
      const double seen = number_of(node.attributes, "window", 0);
      shape.window = seen > 0 ? seen : number_of(node.attributes, "chunk", 0);
    }
    if (!multiplies_values(graph, n) || !result_of[n]) continue;
    const InstructionId made = view.reg(result_of[n]).maker;
    const ProductShape local = local_product(view, made).shape;
    if (n != last) {
      shape.head_dim += local.k;
      continue;
    }
    // Heads that share keys are rows beside one another in the product.
    const auto shared = region.shared_heads.find(n);
    const double heads =
        shared == region.shared_heads.end()
            ? 1
            : static_cast<double>(
                  view.program->registers[view.at(made).operands[0]]
                      .local_shape[shared->second]);
    shape.heads = local.groups * heads;
    shape.kv_heads = local.groups;
    shape.queries = local.m / heads;
    shape.keys = local.k;
    shape.value_dim = local.n;
  }
  if (shape.head_dim == 0) shape.head_dim = shape.value_dim;
  if (shape.window > 0 && shape.window < shape.keys) {
    // Each query sees this many keys, none of which is hidden.
    shape.keys = shape.window;
    shape.causal = false;
  }
  return shape;
}

double model_flops(const ProgramView& view, InstructionId i,
                   double expert_factor) {
  if (!view.computes(i) || !view.op(i).is_product ||
      view.reg(view.at(i).result).weight) {
    return 0;
  }
  const LocalProduct product = local_product(view, i);
  double flops = product.shape.flops() * product.parts;
  if (view.reg(view.at(i).result).filled < 1) flops /= expert_factor;
  const Graph& graph = view.graph();
  const NodeId node = view.at(i).node;
  const Region* const attention =
      multiplies_values(graph, node) ? attention_of(graph, node) : nullptr;
  const bool hides_keys = attention != nullptr &&
                          std::ranges::any_of(attention->nodes, [&](NodeId n) {
                            return graph.nodes[n].op->is_mask;
                          });
  return hides_keys ? flops / 2 : flops;
}

PricedTime recurrence_time(const ProgramView& view, InstructionId i,
                           const HardwareProfile& card, Precision precision) {
  constexpr double kVectorSlowdown = 5;
  std::vector<Shape> shapes;
  for (const RegisterId reg : view.at(i).operands) {
    shapes.push_back(view.program->registers[reg].local_shape);
  }
  const GraphNode& node = view.node(i);
  const auto flops = static_cast<double>(node.op->flops(
      shapes, view.program->registers[view.at(i).result].local_shape,
      node.attributes));
  auto rate = peak_rate(card, Precision::F32);
  if (!rate) rate = peak_rate(card, precision).value_or(0) / 16;
  if (*rate <= 0) return {};
  const double seconds = flops / *rate * kVectorSlowdown;
  return {{0, seconds, 2 * seconds}, Basis::Assumed};
}

}  // namespace shardplan
