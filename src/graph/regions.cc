// SPDX-License-Identifier: Apache-2.0
// Finds attention around softmaxes, and experts between exchanges of tokens.
#include "graph/regions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "graph/graph.h"

namespace shardplan {
namespace {

bool has(const std::vector<NodeId>& nodes, NodeId node) {
  return std::binary_search(nodes.begin(), nodes.end(), node);
}

class AttentionFinder {
 public:
  explicit AttentionFinder(Graph& graph)
      : graph_(graph),
        taken_(graph.nodes.size()),
        reads_(graph.values.size()),
        reader_(graph.values.size()) {
    for (const Region& region : graph.regions) {
      if (region.is_norm_or_softmax()) take(region);
    }
    for (const NodeId n : graph.nodes.ids()) {
      for (const ValueId operand : graph.nodes[n].operands) {
        ++reads_[operand];
        reader_[operand] = n;
      }
    }
  }

  void run() {
    for (size_t r = 0, count = graph_.regions.size(); r < count; ++r) {
      Region& region = graph_.regions[r];
      if (region.kind != Region::Kind::Softmax ||
          graph_.values[region.results[0]].is_weight) {
        continue;
      }
      if (auto attention = attention_around(region)) {
        take(add_region(graph_, *std::move(attention)));
      }
    }
  }

 private:
  void take(const Region& region) {
    for (const NodeId n : region.nodes) taken_[n] = true;
  }

  // Returns attention around a softmax: from products of queries and keys,
  // through the operations on scores, to the product with values. Sets
  // softmax.weights.
  std::optional<Region> attention_around(Region& softmax) const {
    std::set<NodeId> nodes(softmax.nodes.begin(), softmax.nodes.end());
    softmax.weights = following_product(softmax.nodes.back(), nodes);
    if (!add_scores(softmax, nodes) || !softmax.weights) return std::nullopt;
    Region attention{.kind = Region::Kind::Attention,
                     .nodes = {nodes.begin(), nodes.end()},
                     .results = {graph_.nodes[softmax.weights].result},
                     .row = softmax.row};
    for (const NodeId n : nodes) {
      // Nodes with a separate norm among them, such as one of heads, are not
      // attention.
      if (taken_[n] && !has(softmax.nodes, n)) return std::nullopt;
      const GraphNode& node = graph_.nodes[n];
      attention.has_trained_bias |= node.op->is_trained_bias;
      if (multiplies_values(graph_, n)) {
        find_shared_heads(
            n, n == softmax.weights ? node.rule.operands[0] : node.rule.result,
            attention);
      }
    }
    return attention;
  }

  // Finds heads of queries (or of weights) that share one head of keys (or
  // values). Their dimension follows the dimension of the heads that both
  // operands have. The last two dimensions of `scores`, which are scores or
  // weights, are lengths.
  void find_shared_heads(NodeId product, std::span<const DimFactors> scores,
                         Region& attention) const {
    if (scores.size() < 2) return;
    const auto& operands = graph_.nodes[product].rule.operands;
    for (size_t dim = 1; dim < operands[0].size(); ++dim) {
      const DimFactors& heads = operands[0][dim];
      if (contains(operands[1], operands[0][dim - 1]) &&
          !contains(operands[1], heads) && !contains(scores.last(2), heads)) {
        attention.shared_heads[product] = dim;
      }
    }
  }

  // Returns whether a kernel of attention may contain the operation.
  static bool is_inside(const GraphNode& node) {
    return is_cheap(node.op->recompute_cost) ||
           node.op->recompute_cost == RecomputeCost::View;
  }

  // Adds the products of values that the scores are made of, and the operations
  // on scores before the softmax. Returns whether there are such products.
  bool add_scores(const Region& softmax, std::set<NodeId>& nodes) const {
    bool found = false;
    const auto elements =
        element_count(graph_.values[softmax.results[0]].shape).value_or(0);
    std::vector<ValueId> values = softmax.inputs;
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& value = graph_.values[values[i]];
      if (!value.node || value.is_weight ||
          element_count(value.shape).value_or(0) < elements / 2) {
        continue;
      }
      const GraphNode& node = graph_.nodes[value.node];
      const bool is_product = multiplies_values(graph_, value.node);
      found |= is_product;
      if ((is_product || is_inside(node)) && nodes.insert(value.node).second &&
          !is_product) {
        values.insert(values.end(), node.operands.begin(), node.operands.end());
      }
    }
    return found;
  }

  // Returns the only product of values that reads a node's result, after any
  // other operations, or none. Adds those operations and the product to
  // `nodes`.
  NodeId following_product(NodeId node, std::set<NodeId>& nodes) const {
    while (true) {
      const ValueId result = graph_.nodes[node].result;
      if (reads_[result] != 1) return {};
      node = reader_[result];
      const bool is_product = multiplies_values(graph_, node);
      if (!is_product && !is_inside(graph_.nodes[node])) return {};
      nodes.insert(node);
      if (is_product) return node;
    }
  }

  Graph& graph_;
  PerNode<bool> taken_;      // part of a norm, a softmax or attention
  PerValue<int> reads_;      // how often each value is read
  PerValue<NodeId> reader_;  // the last node that reads it
};

// Returns the product from which a value follows, through the first operand of
// each node that is not a weight, or none if there is none.
NodeId product_of(const Graph& graph, ValueId value) {
  while (true) {
    const NodeId made = graph.values[value].node;
    if (!made || graph.nodes[made].op->is_product) return made;
    const std::vector<ValueId>& operands = graph.nodes[made].operands;
    value =
        *std::find_if_not(operands.begin(), operands.end() - 1,
                          [&](ValueId v) { return graph.values[v].is_weight; });
  }
}

// Finds experts, from sending tokens to experts to combining their answers.
void find_experts(Graph& graph) {
  PerValue<int> region_of(graph.values.size(), -1);
  std::vector<Region> found;
  for (const NodeId n : graph.nodes.ids()) {
    const GraphNode& node = graph.nodes[n];
    int at = -1;
    if (node.op->exchange == TokenExchange::ToExperts) {
      const Shape& sent = graph.values[node.result].shape;
      const Shape& choices = graph.values[node.operands[1]].shape;
      at = static_cast<int>(found.size());
      found.push_back({.kind = Region::Kind::Experts,
                       .experts = sent.front(),
                       .places = sent[sent.size() - 2],
                       .tokens = choices[choices.size() - 2],
                       .choices = choices.back(),
                       .router = product_of(graph, node.operands[1])});
    } else {
      for (const ValueId operand : node.operands) {
        at = std::max(at, region_of[operand]);
      }
    }
    if (at < 0) continue;
    Region& region = nth(found, at);
    region.nodes.push_back(n);
    if (node.op->exchange == TokenExchange::FromExperts) {
      region.results.push_back(node.result);
    } else {
      region_of[node.result] = at;
    }
  }
  for (Region& region : found) add_region(graph, std::move(region));
}

}  // namespace

bool multiplies_values(const Graph& graph, NodeId node) {
  const GraphNode& at = graph.nodes[node];
  return at.op->is_product && !graph.values[at.operands[0]].is_weight &&
         !graph.values[at.operands[1]].is_weight;
}

Region& add_region(Graph& graph, Region region) {
  std::set<ValueId> inputs;
  for (const NodeId n : region.nodes) {
    for (const ValueId operand : graph.nodes[n].operands) {
      const Value& value = graph.values[operand];
      if (!value.is_weight && !has(region.nodes, value.node)) {
        inputs.insert(operand);
      }
    }
  }
  region.inputs.assign(inputs.begin(), inputs.end());
  graph.regions.push_back(std::move(region));
  return graph.regions.back();
}

void find_regions(Graph& graph) {
  AttentionFinder(graph).run();
  find_experts(graph);
}

}  // namespace shardplan
