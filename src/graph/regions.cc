// SPDX-License-Identifier: Apache-2.0
#include "graph/regions.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "graph/graph.h"

namespace shardplan {
namespace {

// A product of two activations.
bool is_product_of_values(const Graph& graph, NodeId node) {
  const GraphNode& at = graph.nodes[node];
  return at.op->is_product && !graph.values[at.operands[0]].is_weight &&
         !graph.values[at.operands[1]].is_weight;
}

// Whether what an operation makes may stay in a kernel of attention.
bool is_inside(const GraphNode& node) {
  return is_cheap(node.op->repeat) || node.op->repeat == Repeat::View;
}

class AttentionFinder {
 public:
  explicit AttentionFinder(Graph& graph)
      : graph_(graph),
        region_of_(graph.nodes.size(), -1),
        reads_(graph.values.size()),
        reader_(graph.values.size()) {}

  void run() {
    const auto count = static_cast<int>(graph_.regions.size());
    for (int r = 0; r < count; ++r) {
      const Region::Kind kind = region(r).kind;
      if (kind == Region::Kind::Norm || kind == Region::Kind::Softmax) claim(r);
    }
    for (const NodeId n : graph_.nodes.ids()) {
      for (const ValueId operand : graph_.nodes[n].operands) {
        ++reads_[operand];
        reader_[operand] = n;
      }
    }
    for (int r = 0; r < count; ++r) {
      const bool is_weight = graph_.values[region(r).results[0]].is_weight;
      if (region(r).kind == Region::Kind::Softmax && !is_weight) widen(r);
    }
  }

 private:
  Region& region(int number) {
    return graph_.regions[static_cast<size_t>(number)];
  }

  void claim(int number) {
    for (const NodeId n : region(number).nodes) region_of_[n] = number;
  }

  void widen(int number) {
    const Region& softmax = region(number);
    std::set<NodeId> nodes(softmax.nodes.begin(), softmax.nodes.end());
    const NodeId mixed = product_behind(softmax.nodes.back(), nodes);
    region(number).weights = mixed;
    const std::vector<NodeId> scores = products_before(softmax, nodes);
    if (!mixed || scores.empty()) return;
    for (const NodeId n : nodes) {
      // A norm of its own, as of heads, is no part of attention.
      if (region_of_[n] >= 0 && region_of_[n] != number) return;
    }
    add(softmax.row, {nodes.begin(), nodes.end()}, scores, mixed);
  }

  void add(ValueId row, std::vector<NodeId> nodes,
           const std::vector<NodeId>& scores, NodeId mixed) {
    Region& attention =
        add_region(graph_, Region::Kind::Attention, std::move(nodes),
                   {graph_.nodes[mixed].result});
    attention.row = row;
    attention.has_trained_bias = std::any_of(
        attention.nodes.begin(), attention.nodes.end(),
        [&](NodeId n) { return graph_.nodes[n].op->is_trained_bias; });
    for (const NodeId n : scores) {
      find_shared(attention, n, graph_.nodes[n].rule.result);
    }
    const GraphNode& last = graph_.nodes[mixed];
    if (std::binary_search(attention.nodes.begin(), attention.nodes.end(),
                           graph_.values[last.operands[0]].node)) {
      find_shared(attention, mixed, last.rule.operands[0]);
    }
    claim(static_cast<int>(graph_.regions.size()) - 1);
  }

  // Heads of queries, or of weights, that share one of keys or values stand
  // behind the dimension of the heads that both have. `scores`: dimensions of
  // the scores or of the weights; the last two are lengths.
  void find_shared(Region& attention, NodeId product,
                   std::span<const DimFactors> scores) {
    if (scores.size() < 2) return;
    const ShardingRule& rule = graph_.nodes[product].rule;
    const std::vector<DimFactors>& dims = rule.operands[0];
    const auto is_in = [](std::span<const DimFactors> list,
                          const DimFactors& dim) {
      return std::find(list.begin(), list.end(), dim) != list.end();
    };
    for (size_t dim = 1; dim < dims.size(); ++dim) {
      if (is_in(rule.operands[1], dims[dim - 1]) &&
          !is_in(rule.operands[1], dims[dim]) &&
          !is_in(scores.last(2), dims[dim])) {
        attention.shared_heads.push_back({product, dim});
      }
    }
  }

  // The products of values of which the scores are made; adds these and what is
  // done with the scores before the softmax.
  std::vector<NodeId> products_before(const Region& softmax,
                                      std::set<NodeId>& nodes) const {
    std::vector<NodeId> products;
    const auto elements =
        element_count(graph_.values[softmax.results[0]].shape).value_or(0);
    std::vector<ValueId> values = softmax.inputs;
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& value = graph_.values[values[i]];
      if (!value.node || nodes.count(value.node) > 0 || value.is_weight ||
          element_count(value.shape).value_or(0) < elements / 2) {
        continue;
      }
      const GraphNode& node = graph_.nodes[value.node];
      if (is_product_of_values(graph_, value.node)) {
        nodes.insert(value.node);
        products.push_back(value.node);
      } else if (is_inside(node)) {
        nodes.insert(value.node);
        values.insert(values.end(), node.operands.begin(), node.operands.end());
      }
    }
    return products;
  }

  // The only product of values that reads what a node gives, whatever is done
  // with it before, if there is one; adds what stands before, and itself.
  NodeId product_behind(NodeId node, std::set<NodeId>& nodes) const {
    while (true) {
      const ValueId result = graph_.nodes[node].result;
      if (reads_[result] != 1) return {};
      node = reader_[result];
      const bool is_product = is_product_of_values(graph_, node);
      if (!is_product && !is_inside(graph_.nodes[node])) return {};
      nodes.insert(node);
      if (is_product) return node;
    }
  }

  Graph& graph_;
  PerNode<int> region_of_;   // a norm, softmax or attention; -1: none
  PerValue<int> reads_;      // how often it is read
  PerValue<NodeId> reader_;  // the last
};

// The products that a value is computed from, through whatever else.
std::vector<NodeId> products_of(const Graph& graph, ValueId value) {
  std::vector<NodeId> products;
  std::set<ValueId> seen = {value};
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const NodeId made = graph.values[open.back()].node;
    open.pop_back();
    if (!made) continue;
    if (graph.nodes[made].op->is_product) {
      products.push_back(made);
      continue;
    }
    for (const ValueId operand : graph.nodes[made].operands) {
      if (seen.insert(operand).second) open.push_back(operand);
    }
  }
  return products;
}

// What is made of tokens that were dealt out, until answers are brought back.
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
      Region& region = found.emplace_back();
      region.experts = sent.front();
      region.places = sent[sent.size() - 2];
      region.tokens = choices[choices.size() - 2];
      region.choices = choices.back();
      region.routers = products_of(graph, node.operands[1]);
    } else {
      for (const ValueId operand : node.operands) {
        at = std::max(at, region_of[operand]);
      }
    }
    if (at < 0) continue;
    Region& region = found[static_cast<size_t>(at)];
    region.nodes.push_back(n);
    if (node.op->exchange == TokenExchange::FromExperts) {
      region.results.push_back(node.result);
    } else {
      region_of[node.result] = at;
    }
  }
  for (Region& region : found) {
    Region& added = add_region(graph, Region::Kind::Experts,
                               std::move(region.nodes), region.results);
    added.experts = region.experts;
    added.places = region.places;
    added.tokens = region.tokens;
    added.choices = region.choices;
    added.routers = std::move(region.routers);
  }
}

}  // namespace

Region& add_region(Graph& graph, Region::Kind kind, std::vector<NodeId> nodes,
                   std::vector<ValueId> results) {
  Region& region = graph.regions.emplace_back();
  region.kind = kind;
  std::set<ValueId> inputs;
  for (const NodeId n : nodes) {
    for (const ValueId operand : graph.nodes[n].operands) {
      const Value& value = graph.values[operand];
      if (!value.is_weight &&
          !std::binary_search(nodes.begin(), nodes.end(), value.node)) {
        inputs.insert(operand);
      }
    }
  }
  region.inputs.assign(inputs.begin(), inputs.end());
  region.nodes = std::move(nodes);
  region.results = std::move(results);
  return region;
}

void find_regions(Graph& graph) {
  AttentionFinder(graph).run();
  find_experts(graph);
}

}  // namespace shardplan
