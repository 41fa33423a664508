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

const Value& value_at(const Graph& graph, int value) {
  return graph.values[static_cast<size_t>(value)];
}

const GraphNode& node_at(const Graph& graph, int node) {
  return graph.nodes[static_cast<size_t>(node)];
}

// Names of what composites compute on the way (graph/composites.h).
bool is_step_of(const std::string& name, const std::string& base) {
  return name.size() > base.size() && name.starts_with(base) &&
         name[base.size()] == ':' &&
         name.find(':', base.size() + 1) == std::string::npos;
}

class Grouping {
 public:
  Grouping(const Graph& graph, const std::vector<bool>& weights,
           bool biased_flash)
      : graph_(graph),
        weights_(weights),
        biased_flash_(biased_flash),
        group_of_(graph.nodes.size(), -1),
        readers_(graph.values.size()) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const int operand : graph.nodes[n].operands) {
        readers_[static_cast<size_t>(operand)].push_back(static_cast<int>(n));
      }
    }
  }

  std::vector<FusedGroup> run(AttentionKind attention) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      const std::string& name = value_at(graph_, node.result).name;
      const size_t colon = name.rfind(':');
      if (colon == std::string::npos || group_of_[n] >= 0) continue;
      const std::string base = name.substr(0, colon);
      if (node.op->name == "rsqrt" && name.substr(colon) == ":rsqrt") {
        add(FusedGroup::Kind::Norm, static_cast<int>(n), base, node.result);
      } else if (node.op->name == "subtract" &&
                 name.substr(colon) == ":shifted") {
        add(FusedGroup::Kind::Softmax, static_cast<int>(n), base,
            node.operands[1]);
      }
    }
    if (attention == AttentionKind::Flash) widen_softmaxes();
    std::erase_if(groups_,
                  [](const FusedGroup& group) { return group.nodes.empty(); });
    for (FusedGroup& group : groups_) find_inputs(group);
    return std::move(groups_);
  }

 private:
  // The steps around node `at`, and the result that they have.
  void add(FusedGroup::Kind kind, int at, const std::string& base, int row) {
    FusedGroup group;
    group.kind = kind;
    group.row = row;
    int first = at;
    while (first > 0 && is_step_of(name_of(first - 1), base)) --first;
    int last = at;
    while (last + 1 < static_cast<int>(graph_.nodes.size()) &&
           name_of(last) != base &&
           (is_step_of(name_of(last + 1), base) || name_of(last + 1) == base)) {
      ++last;
    }
    if (name_of(last) != base) return;
    bool has_mean = false;
    for (int n = first; n <= last; ++n) {
      // An offset of the weight, say.
      if (is_weight(node_at(graph_, n).result)) continue;
      group.nodes.push_back(n);
      group_of_[static_cast<size_t>(n)] = static_cast<int>(groups_.size());
      has_mean = has_mean || name_of(n) == base + ":mean";
    }
    group.numbers = has_mean ? 2 : 1;
    groups_.push_back(std::move(group));
  }

  const std::string& name_of(int node) const {
    return value_at(graph_, node_at(graph_, node).result).name;
  }

  bool is_weight(int value) const {
    return weights_[static_cast<size_t>(value)];
  }

  // A product of two activations.
  bool is_product_of_values(int node) const {
    const GraphNode& at = node_at(graph_, node);
    return at.op->is_product && !is_weight(at.operands[0]) &&
           !is_weight(at.operands[1]);
  }

  // Whether what an operation makes may stay in the kernel.
  bool is_inside(int node) const {
    const GraphNode& at = node_at(graph_, node);
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
    std::set<int> nodes(softmax.nodes.begin(), softmax.nodes.end());
    const Shape& scores =
        value_at(graph_, node_at(graph_, softmax.nodes.back()).result).shape;
    bool found = false;
    std::vector<int> values;
    for (const int n : softmax.nodes) {
      for (const int operand : node_at(graph_, n).operands) {
        values.push_back(operand);
      }
    }
    const auto elements = element_count(scores).value_or(0);
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& value = value_at(graph_, values[i]);
      if (value.node < 0 || nodes.count(value.node) > 0 ||
          is_weight(values[i]) ||
          element_count(value.shape).value_or(0) < elements / 2) {
        continue;
      }
      if (is_product_of_values(value.node)) {
        nodes.insert(value.node);
        found = true;
      } else if (is_inside(value.node)) {
        nodes.insert(value.node);
        const auto& operands = node_at(graph_, value.node).operands;
        values.insert(values.end(), operands.begin(), operands.end());
      }
    }
    const auto mixed = found ? product_behind(softmax.nodes.back(), nodes) : -1;
    if (mixed < 0) return;
    nodes.insert(mixed);
    for (const int n : nodes) {
      const int other = group_of_[static_cast<size_t>(n)];
      // A norm of its own, as of heads, is none of its business.
      if (other >= 0 && other != static_cast<int>(number)) return;
      if (!biased_flash_ && node_at(graph_, n).op->is_trained_bias) {
        return;
      }
    }
    softmax.kind = FusedGroup::Kind::Attention;
    softmax.nodes.assign(nodes.begin(), nodes.end());
    for (const int n : nodes) {
      group_of_[static_cast<size_t>(n)] = static_cast<int>(number);
    }
  }

  // The only product of values that reads the weights, whatever is done with
  // them before; -1: none.
  int product_behind(int node, std::set<int>& nodes) const {
    while (true) {
      const auto result = static_cast<size_t>(node_at(graph_, node).result);
      if (readers_[result].size() != 1) return -1;
      node = readers_[result].front();
      if (is_product_of_values(node)) return node;
      if (!is_inside(node)) return -1;
      nodes.insert(node);
    }
  }

  void find_inputs(FusedGroup& group) const {
    const std::set<int> inside(group.nodes.begin(), group.nodes.end());
    std::set<int> inputs;
    for (const int n : group.nodes) {
      for (const int operand : node_at(graph_, n).operands) {
        const int maker = value_at(graph_, operand).node;
        if (!is_weight(operand) && (maker < 0 || inside.count(maker) == 0)) {
          inputs.insert(operand);
        }
      }
    }
    group.inputs.assign(inputs.begin(), inputs.end());
  }

  const Graph& graph_;
  const std::vector<bool>& weights_;
  bool biased_flash_;
  std::vector<int> group_of_;
  std::vector<std::vector<int>> readers_;
  std::vector<FusedGroup> groups_;
};

}  // namespace

std::vector<FusedGroup> fused_groups(const Graph& graph,
                                     const std::vector<bool>& weights,
                                     AttentionKind attention,
                                     bool biased_flash) {
  return Grouping(graph, weights, biased_flash).run(attention);
}

namespace {

bool multiplies(const Graph& graph, const GraphNode& node,
                std::string_view adapter) {
  return node.op->is_product &&
         value_at(graph, node.operands[1]).parameter.find(adapter) !=
             std::string::npos;
}

}  // namespace

std::vector<bool> adapter_values(const Graph& graph) {
  std::vector<bool> found(graph.values.size());
  for (const GraphNode& node : graph.nodes) {
    found[static_cast<size_t>(node.result)] =
        multiplies(graph, node, ".lora_") ||
        (node.op->is_multiple &&
         found[static_cast<size_t>(node.operands.front())]);
  }
  return found;
}

std::vector<bool> learned_values(const Graph& graph) {
  std::vector<bool> learned(graph.values.size());
  for (size_t v = 0; v < learned.size(); ++v) {
    learned[v] = graph.values[v].kind == Value::Kind::Parameter;
  }
  for (const GraphNode& node : graph.nodes) {
    learned[static_cast<size_t>(node.result)] =
        std::any_of(node.operands.begin(), node.operands.end(),
                    [&](int v) { return learned[static_cast<size_t>(v)]; });
  }
  return learned;
}

bool is_adapter_input(const Graph& graph, const GraphNode& node) {
  return multiplies(graph, node, ".lora_A");
}

bool is_one_kernel(const FusedGroup& group, bool native) {
  using Kind = FusedGroup::Kind;
  const bool subtracts_mean = group.numbers == 2;
  return group.kind == Kind::Attention ||
         (native && (group.kind == Kind::Softmax || subtracts_mean));
}

std::vector<Share> expert_shares(const Graph& graph, double factor) {
  std::vector<Share> shares(graph.values.size());
  for (const GraphNode& node : graph.nodes) {
    Share& share = shares[static_cast<size_t>(node.result)];
    if (node.op->exchange == TokenExchange::FromExperts) continue;
    if (node.op->exchange == TokenExchange::ToExperts) {
      const Shape& choices = value_at(graph, node.operands[1]).shape;
      const Shape& result = value_at(graph, node.result).shape;
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
    for (const int operand : node.operands) {
      const Share& of = shares[static_cast<size_t>(operand)];
      if (of.part != of.of) share = of;
    }
  }
  return shares;
}

}  // namespace shardplan
