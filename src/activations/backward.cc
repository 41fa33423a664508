// SPDX-License-Identifier: Apache-2.0
#include "activations/backward.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/checked.h"

namespace shardplan {
namespace {

class Grouping {
 public:
  Grouping(const Graph& graph, bool biased_flash)
      : graph_(graph),
        biased_flash_(biased_flash),
        group_of_(graph.nodes.size(), -1),
        readers_(graph.values.size()) {
    for (const NodeId n : graph.nodes.ids()) {
      for (const ValueId operand : graph.nodes[n].operands) {
        readers_[operand].push_back(n);
      }
    }
  }

  std::vector<FusedGroup> run(AttentionKind attention) {
    for (const Region& region : graph_.regions) add(region);
    for (FusedGroup& group : groups_) {
      std::set<NodeId> between;
      group.mixes = group.kind == FusedGroup::Kind::Softmax &&
                    !group.nodes.empty() &&
                    product_behind(group.nodes.back(), between);
    }
    if (attention == AttentionKind::Flash) widen_softmaxes();
    std::erase_if(groups_,
                  [](const FusedGroup& group) { return group.nodes.empty(); });
    for (FusedGroup& group : groups_) find_inputs(group);
    return std::move(groups_);
  }

 private:
  // The operations of a norm or of a softmax, but for those of weights alone.
  void add(const Region& region) {
    FusedGroup group;
    if (region.kind == Region::Kind::Softmax) {
      group.kind = FusedGroup::Kind::Softmax;
    } else if (region.kind != Region::Kind::Norm) {
      return;
    }
    for (NodeId n = region.first; n <= region.last; ++n.number) {
      const GraphNode& node = graph_.nodes[n];
      if (is_weight(node.result)) continue;
      group.nodes.push_back(n);
      group_of_[n] = static_cast<int>(groups_.size());
      if (node.part == OpPart::Mean) group.numbers = 2;
      if (node.part == OpPart::RowNumbers) group.row = node.result;
    }
    groups_.push_back(std::move(group));
  }

  bool is_weight(ValueId value) const { return graph_.values[value].is_weight; }

  // A product of two activations.
  bool is_product_of_values(NodeId node) const {
    const GraphNode& at = graph_.nodes[node];
    return at.op->is_product && !is_weight(at.operands[0]) &&
           !is_weight(at.operands[1]);
  }

  // Whether what an operation makes may stay in the kernel.
  bool is_inside(NodeId node) const {
    const GraphNode& at = graph_.nodes[node];
    return is_cheap(at.op->repeat) || at.op->repeat == Repeat::View;
  }

  void widen_softmaxes() {
    const size_t count = groups_.size();
    for (size_t g = 0; g < count; ++g) {
      if (groups_[g].kind == FusedGroup::Kind::Softmax) widen(g);
    }
  }

  // From products of queries and keys, through what is done with the scores, to
  // the product with values.
  void widen(size_t number) {
    FusedGroup& softmax = groups_[number];
    std::set<NodeId> nodes(softmax.nodes.begin(), softmax.nodes.end());
    const Shape& scores =
        graph_.values[graph_.nodes[softmax.nodes.back()].result].shape;
    bool found = false;
    std::vector<ValueId> values;
    for (const NodeId n : softmax.nodes) {
      for (const ValueId operand : graph_.nodes[n].operands) {
        values.push_back(operand);
      }
    }
    const auto elements = element_count(scores).value_or(0);
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& value = graph_.values[values[i]];
      if (!value.node || nodes.count(value.node) > 0 || is_weight(values[i]) ||
          element_count(value.shape).value_or(0) < elements / 2) {
        continue;
      }
      if (is_product_of_values(value.node)) {
        nodes.insert(value.node);
        found = true;
      } else if (is_inside(value.node)) {
        nodes.insert(value.node);
        const auto& operands = graph_.nodes[value.node].operands;
        values.insert(values.end(), operands.begin(), operands.end());
      }
    }
    const NodeId mixed =
        found ? product_behind(softmax.nodes.back(), nodes) : NodeId();
    if (!mixed) return;
    nodes.insert(mixed);
    for (const NodeId n : nodes) {
      const int other = group_of_[n];
      // A norm of its own, as of heads, is none of its business.
      if (other >= 0 && other != static_cast<int>(number)) return;
      if (!biased_flash_ && graph_.nodes[n].op->is_trained_bias) {
        return;
      }
    }
    softmax.kind = FusedGroup::Kind::Attention;
    softmax.nodes.assign(nodes.begin(), nodes.end());
    for (const NodeId n : nodes) {
      group_of_[n] = static_cast<int>(number);
    }
  }

  // The only product of values that reads the weights, whatever is done with
  // them before, if there is one.
  NodeId product_behind(NodeId node, std::set<NodeId>& nodes) const {
    while (true) {
      const std::vector<NodeId>& readers = readers_[graph_.nodes[node].result];
      if (readers.size() != 1) return {};
      node = readers.front();
      if (is_product_of_values(node)) return node;
      if (!is_inside(node)) return {};
      nodes.insert(node);
    }
  }

  void find_inputs(FusedGroup& group) const {
    const std::set<NodeId> inside(group.nodes.begin(), group.nodes.end());
    std::set<ValueId> inputs;
    for (const NodeId n : group.nodes) {
      for (const ValueId operand : graph_.nodes[n].operands) {
        const NodeId maker = graph_.values[operand].node;
        if (!is_weight(operand) && (!maker || inside.count(maker) == 0)) {
          inputs.insert(operand);
        }
      }
    }
    group.inputs.assign(inputs.begin(), inputs.end());
  }

  const Graph& graph_;
  bool biased_flash_;
  PerNode<int> group_of_;
  PerValue<std::vector<NodeId>> readers_;
  std::vector<FusedGroup> groups_;
};

}  // namespace

std::vector<FusedGroup> fused_groups(const Graph& graph,
                                     AttentionKind attention,
                                     bool biased_flash) {
  return Grouping(graph, biased_flash).run(attention);
}

bool is_one_kernel(const FusedGroup& group, bool native) {
  using Kind = FusedGroup::Kind;
  const bool subtracts_mean = group.numbers == 2;
  return group.kind == Kind::Attention ||
         (native && (group.kind == Kind::Softmax || subtracts_mean));
}

PerValue<Share> expert_shares(const Graph& graph, double factor) {
  PerValue<Share> shares(graph.values.size());
  for (const GraphNode& node : graph.nodes) {
    Share& share = shares[node.result];
    if (node.op->exchange == TokenExchange::FromExperts) continue;
    if (node.op->exchange == TokenExchange::ToExperts) {
      const Shape& choices = graph.values[node.operands[1]].shape;
      const Shape& result = graph.values[node.result].shape;
      const int64_t places = result[result.size() - 2];
      const double experts = static_cast<double>(result.front());
      const double wanted = std::ceil(
          factor * static_cast<double>(choices[choices.size() - 2]) *
          static_cast<double>(choices.back()) / std::max(experts, 1.0));
      if (places > 0 && wanted < static_cast<double>(places)) {
        share = {static_cast<int64_t>(wanted), places};
      }
      continue;
    }
    for (const ValueId operand : node.operands) {
      const Share& of = shares[operand];
      if (of.part != of.of) share = of;
    }
  }
  return shares;
}

}  // namespace shardplan
