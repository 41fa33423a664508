// SPDX-License-Identifier: Apache-2.0
#include "spmd/propagate.h"

#include <algorithm>
#include <string_view>

#include "spmd/factors.h"

namespace shardplan {
namespace {

// One node's say in what its operands and result look like.
class Spreader {
 public:
  Spreader(const Graph& graph, const Mesh& mesh,
           const std::vector<std::optional<Layout>>& wanted,
           std::vector<PartitionSpec>& specs)
      : graph_(graph), mesh_(mesh), wanted_(wanted), specs_(specs) {}

  // Whether anything changed.
  bool spread(const GraphNode& node) {
    if (node.shard_map) return suggest_mapped(node);
    FactorAxes axes(node.rule.factors.size());
    AxisNames used;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      take(node.rule, node.rule.operands[i], node.operands[i], axes, used);
    }
    take(node.rule, node.rule.result, node.result, axes, used);
    bool changed = false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      changed |= give(node.rule, node.rule.operands[i], node.operands[i], axes);
    }
    return give(node.rule, node.rule.result, node.result, axes) || changed;
  }

 private:
  // Specs under shard_map say what its operands and result look like.
  bool suggest_mapped(const GraphNode& node) {
    bool changed = false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      changed |= give(node.shard_map->in_specs[i], node.operands[i]);
    }
    return give(node.shard_map->out_spec, node.result) || changed;
  }

  void take(const ShardingRule& rule, const std::vector<DimFactors>& dims,
            int value, FactorAxes& axes, AxisNames& used) {
    const FactorAxes mine =
        factor_axes(mesh_, rule, dims, specs_[static_cast<size_t>(value)]);
    for (size_t f = 0; f < mine.size(); ++f) {
      if (!axes[f].empty() || mine[f].empty()) continue;
      const bool free = std::none_of(
          mine[f].begin(), mine[f].end(),
          [&](const AxisName& axis) { return contains(used, axis); });
      if (!free) continue;
      axes[f] = mine[f];
      used.insert(used.end(), mine[f].begin(), mine[f].end());
    }
  }

  bool give(const ShardingRule& rule, const std::vector<DimFactors>& dims,
            int value, const FactorAxes& axes) {
    const std::optional<PartitionSpec> spec = spec_of(mesh_, rule, dims, axes);
    return spec && give(*spec, value);
  }

  // To dimensions that have no axes yet.
  bool give(const PartitionSpec& written, int value) {
    const auto v = static_cast<size_t>(value);
    if (wanted_[v]) return false;
    const PartitionSpec spec =
        layout_of(mesh_, written, graph_.values[v].shape.size()).spec;
    bool changed = false;
    for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
      AxisNames& mine = specs_[v].dims[dim];
      const AxisNames& theirs = spec.dims[dim];
      if (!mine.empty() || theirs.empty()) continue;
      const bool free = std::none_of(
          specs_[v].dims.begin(), specs_[v].dims.end(),
          [&](const AxisNames& other) {
            return std::any_of(
                theirs.begin(), theirs.end(),
                [&](const AxisName& axis) { return contains(other, axis); });
          });
      const int64_t size = graph_.values[v].shape[dim];
      if (!free || size % shard_count(mesh_, theirs) != 0) continue;
      mine = theirs;
      changed = true;
    }
    return changed;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const std::vector<std::optional<Layout>>& wanted_;
  std::vector<PartitionSpec>& specs_;
};

// eformer's token, and the names that flax and MaxText give the axis.
bool is_batch_label(std::string_view label) {
  return label == "BATCH" || label == "__BATCH__" || label == "batch" ||
         label == "activation_batch";
}

}  // namespace

std::vector<PartitionSpec> suggest(
    const Graph& graph, const Mesh& mesh,
    const std::vector<std::optional<Layout>>& wanted) {
  std::vector<PartitionSpec> specs(graph.values.size());
  for (size_t v = 0; v < specs.size(); ++v) {
    specs[v] = wanted[v] ? wanted[v]->spec
                         : replicated(graph.values[v].shape.size()).spec;
  }
  Spreader spreader(graph, mesh, wanted, specs);
  // Every change gives axes to a dimension that had none: this ends.
  for (bool changed = true; changed;) {
    changed = false;
    for (const GraphNode& node : graph.nodes) changed |= spreader.spread(node);
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      changed |= spreader.spread(*node);
    }
  }
  return specs;
}

std::vector<bool> find_weights(const Graph& graph) {
  std::vector<bool> weights(graph.values.size());
  for (size_t v = 0; v < weights.size(); ++v) {
    weights[v] = graph.values[v].kind == Value::Kind::Parameter;
  }
  for (const GraphNode& node : graph.nodes) {
    weights[static_cast<size_t>(node.result)] =
        std::all_of(node.operands.begin(), node.operands.end(),
                    [&](int v) { return weights[static_cast<size_t>(v)]; });
  }
  return weights;
}

std::vector<std::vector<bool>> find_batch_dims(
    const Graph& graph, const std::vector<bool>& weights) {
  std::vector<std::vector<bool>> batch(graph.values.size());
  for (size_t v = 0; v < batch.size(); ++v) {
    const Value& value = graph.values[v];
    batch[v].assign(value.shape.size(), false);
    if (weights[v]) continue;
    for (size_t dim = 0; dim < value.axes.size(); ++dim) {
      batch[v][dim] = is_batch_label(value.axes[dim]);
    }
    if (value.kind == Value::Kind::Input && value.axes.empty() &&
        value.shape.size() >= 2) {
      batch[v][0] = true;
    }
  }
  for (const GraphNode& node : graph.nodes) {
    const auto result = static_cast<size_t>(node.result);
    if (weights[result]) continue;
    std::vector<bool> factors(node.rule.factors.size());
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const auto operand = static_cast<size_t>(node.operands[i]);
      for (size_t dim = 0; dim < batch[operand].size(); ++dim) {
        if (!batch[operand][dim] || node.rule.operands[i][dim].empty()) {
          continue;
        }
        factors[static_cast<size_t>(node.rule.operands[i][dim][0])] = true;
      }
    }
    for (size_t dim = 0; dim < batch[result].size(); ++dim) {
      const DimFactors& dim_factors = node.rule.result[dim];
      if (!dim_factors.empty() &&
          factors[static_cast<size_t>(dim_factors[0])]) {
        batch[result][dim] = true;
      }
    }
  }
  return batch;
}

}  // namespace shardplan
