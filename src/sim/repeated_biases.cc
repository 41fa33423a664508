// SPDX-License-Identifier: Apache-2.0
#include "sim/repeated_biases.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardplan {
namespace {

// How far back from an addition its product and its bias are looked for: no
// layer has more between them, and a graph of a million additions takes no
// time.
constexpr int kMaxSteps = 8;

const GraphNode* maker(const Graph& graph, int value) {
  const int node = graph.values[static_cast<size_t>(value)].node;
  return node < 0 ? nullptr : &graph.nodes[static_cast<size_t>(node)];
}

bool is_parameter(const Graph& graph, int value) {
  return graph.values[static_cast<size_t>(value)].kind ==
         Value::Kind::Parameter;
}

// The bias that `value` is the sum of, over its first dimension; else nothing.
std::optional<int> summed_bias(const Graph& graph, int value) {
  const GraphNode* node = maker(graph, value);
  for (int step = 0; step < kMaxSteps && node != nullptr; ++step) {
    if (node->op->name != "reshape" && node->op->name != "constraint") break;
    node = maker(graph, node->operands.front());
  }
  if (node == nullptr || node->op->name != "sum") return std::nullopt;
  const int bias = node->operands.front();
  const auto dims = integers_of(node->attributes, "dims");
  const Shape& shape = graph.values[static_cast<size_t>(bias)].shape;
  if (!is_parameter(graph, bias) || shape.size() < 2 || dims.size() != 1) {
    return std::nullopt;
  }
  const auto rank = static_cast<int64_t>(shape.size());
  if (dims.front() != 0 && dims.front() != -rank) return std::nullopt;
  return bias;
}

bool contracts_first_dim(const Graph& graph, const GraphNode& einsum,
                         int64_t size) {
  for (size_t i = 0; i < einsum.operands.size(); ++i) {
    const auto& dims = einsum.rule.operands[i];
    if (!is_parameter(graph, einsum.operands[i]) || dims.empty() ||
        dims.front().size() != 1) {
      continue;
    }
    const Factor& factor =
        einsum.rule.factors[static_cast<size_t>(dims.front().front())];
    if (factor.kind == FactorKind::Sum && factor.size == size) return true;
  }
  return false;
}

// Whether `value` is such a product, perhaps scaled or with more added to it.
bool is_product_over(const Graph& graph, int value, int64_t size) {
  const GraphNode* node = maker(graph, value);
  for (int step = 0; step < kMaxSteps && node != nullptr; ++step) {
    const std::string_view name = node->op->name;
    if (name == "einsum") return contracts_first_dim(graph, *node, size);
    if (name != "scale" && name != "add" && name != "reshape" &&
        name != "constraint") {
      return false;
    }
    node = maker(graph, node->operands.front());
  }
  return false;
}

}  // namespace

std::vector<int> repeated_biases(const Graph& graph) {
  std::vector<int> found;
  for (const GraphNode& node : graph.nodes) {
    if (node.op->name != "add") continue;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const auto bias = summed_bias(graph, node.operands[side]);
      if (!bias ||
          std::find(found.begin(), found.end(), *bias) != found.end()) {
        continue;
      }
      const int64_t size =
          graph.values[static_cast<size_t>(*bias)].shape.front();
      if (is_product_over(graph, node.operands[1 - side], size)) {
        found.push_back(*bias);
      }
    }
  }
  return found;
}

}  // namespace shardplan
