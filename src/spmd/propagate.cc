// SPDX-License-Identifier: Apache-2.0
// Spreads shardings over a graph, and weighs those of one operation.
#include "spmd/propagate.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/checked.h"
#include "base/words.h"
#include "spmd/layout.h"

namespace shardplan {
namespace {

// Spreads specs between a node's operands and its result.
struct Spreader {
  const Graph& graph;
  const Mesh& mesh;
  const PerValue<std::optional<Layout>>& wanted;
  PerValue<PartitionSpec>& specs;

  // Returns whether anything changed.
  bool spread(const GraphNode& node) {
    bool changed = false;
    if (node.shard_map) {
      for (size_t i = 0; i < node.operands.size(); ++i) {
        changed |= give(node.shard_map->in_specs[i], node.operands[i]);
      }
      return give(node.shard_map->out_spec, node.result) || changed;
    }
    FactorAxes axes(node.rule.factors.size());
    AxisNames used;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      take(node.rule, node.rule.operands[i], node.operands[i], axes, used);
    }
    take(node.rule, node.rule.result, node.result, axes, used);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      changed |= give(node.rule, node.rule.operands[i], node.operands[i], axes);
    }
    return give(node.rule, node.rule.result, node.result, axes) || changed;
  }

  void take(const ShardingRule& rule, const std::vector<DimFactors>& dims,
            ValueId value, FactorAxes& axes, AxisNames& used) {
    const FactorAxes mine = factor_axes(mesh, rule, dims, specs[value]);
    for (size_t f = 0; f < mine.size(); ++f) {
      if (!axes[f].empty() || mine[f].empty()) continue;
      if (contains_any(used, mine[f])) continue;
      axes[f] = mine[f];
      used.insert(used.end(), mine[f].begin(), mine[f].end());
    }
  }

  bool give(const ShardingRule& rule, const std::vector<DimFactors>& dims,
            ValueId value, const FactorAxes& axes) {
    const std::optional<PartitionSpec> spec = spec_of(mesh, rule, dims, axes);
    return spec && give(*spec, value);
  }

  // Gives axes to dimensions that have none yet; returns whether any changed.
  bool give(const PartitionSpec& written, ValueId value) {
    if (wanted[value]) return false;
    const PartitionSpec spec =
        layout_of(mesh, written, graph.values[value].shape.size()).spec;
    bool changed = false;
    for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
      AxisNames& mine = specs[value].dims[dim];
      const AxisNames& theirs = spec.dims[dim];
      const int64_t size = graph.values[value].shape[dim];
      if (!mine.empty() || theirs.empty() ||
          contains_any(axes_in(specs[value]), theirs) ||
          size % shard_count(mesh, theirs) != 0) {
        continue;
      }
      mine = theirs;
      changed = true;
    }
    return changed;
  }
};

// Accepts eformer's token and the names that flax and MaxText give the axis.
bool is_batch_label(std::string_view label) {
  return has_word("BATCH __BATCH__ batch activation_batch", label);
}

// Operations have few factors, and tensors have few axes. Beyond this many
// assignments, only the first candidate of each factor is weighed.
constexpr int64_t kMaxAssignments = 20'000;

// The bytes, the collectives before the operation, the operations of one
// device, and the bytes of the result.
using Weight = std::tuple<double, size_t, int64_t, double>;

struct Chooser {
  const Mesh& mesh;
  const GraphNode& node;
  const std::vector<OperandChoice>& operands;
  const Shape& result_shape;
  const std::optional<Layout>& wanted;
  const PartitionSpec& suggested;
  ReshardCache& reshards;
  std::vector<std::vector<AxisNames>> candidates = {};  // per factor
  FactorAxes tried = {};
  AxisNames used = {};  // by those tried
  AxisNames batch_axes = {};
  std::optional<std::pair<Weight, NodeChoice>> best = {};

  NodeChoice choose() {
    candidates.resize(node.rule.factors.size());
    tried.resize(candidates.size());
    collect();
    const auto all = candidates;
    keep_products();
    assign(0);
    if (!best) {
      candidates = all;
      assign(0);
    }
    SHARDPLAN_CHECK(best.has_value());
    return std::move(best->second);
  }

  void propose(const std::vector<DimFactors>& dims, const PartitionSpec& spec) {
    const FactorAxes axes = factor_axes(mesh, node.rule, dims, spec);
    for (size_t f = 0; f < axes.size(); ++f) {
      for (size_t count = axes[f].size(); count > 0; --count) {
        add_candidate(f, {axes[f].data(), axes[f].data() + count});
      }
      // Answers of experts return over the axes that shard the batch, which may
      // be the first of the experts' axes, and are summed over the rest.
      if (node.op->exchange != TokenExchange::FromExperts) continue;
      for (size_t first = 1; first < axes[f].size(); ++first) {
        add_candidate(
            f, {axes[f].data() + first, axes[f].data() + axes[f].size()});
      }
    }
  }

  void add_candidate(size_t factor, const AxisNames& axes) {
    auto& known = candidates[factor];
    if (!contains(known, axes)) known.push_back(axes);
  }

  void collect() {
    for (size_t i = 0; i < operands.size(); ++i) {
      for (const Layout& layout : operands[i].available) {
        propose(node.rule.operands[i], layout.spec);
      }
    }
    propose(node.rule.result, wanted ? wanted->spec : suggested);
    for (auto& of_factor : candidates) of_factor.emplace_back();
    keep_batches();
    int64_t assignments = 1;
    for (auto& of_factor : candidates) {
      assignments *= std::ssize(of_factor);
      if (assignments <= kMaxAssignments) continue;
      assignments /= std::ssize(of_factor);
      if (of_factor.size() > 1) of_factor = {of_factor.front(), {}};
      assignments = std::min(assignments * 2, kMaxAssignments);
    }
  }

  // Returns whether a dimension, the last but one, begins with groups of
  // tokens, each of which is sent to experts separately.
  bool are_token_groups(const std::vector<DimFactors>& dims, size_t dim) const {
    return node.op->exchange != TokenExchange::None && dim + 2 == dims.size() &&
           nth(node.rule.factors, dims[dim].front()).kind == FactorKind::Pass;
  }

  // Lets a batch factor keep the axes that it has, if operands agree on them.
  // If an operand has more of them than the others, the factor keeps them all.
  void keep_batches() {
    std::vector<AxisNames> kept(candidates.size());
    std::vector<bool> disputed(candidates.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      const FactorAxes axes = held_by(i);
      for (size_t dim = 0; dim < operands[i].batch.size(); ++dim) {
        const DimFactors& factors = node.rule.operands[i][dim];
        if (factors.empty() ||
            !(operands[i].batch[dim] ||
              are_token_groups(node.rule.operands[i], dim))) {
          continue;
        }
        const size_t f = to_size(factors[0]);
        disputed[f] = disputed[f] || !(contains_all(kept[f], axes[f]) ||
                                       contains_all(axes[f], kept[f]));
        if (axes[f].size() > kept[f].size()) kept[f] = axes[f];
      }
    }
    for (size_t f = 0; f < kept.size(); ++f) {
      if (kept[f].empty() || disputed[f]) continue;
      candidates[f] = {kept[f]};
      batch_axes.insert(batch_axes.end(), kept[f].begin(), kept[f].end());
      AxisNames rest = kept[f];
      erase_if(rest, [&](const AxisName& axis) {
        return shards_a_common_factor(axis, f);
      });
      if (rest != kept[f]) candidates[f].push_back(rest);
    }
  }

  FactorAxes held_by(size_t operand) const {
    return factor_axes(mesh, node.rule, node.rule.operands[operand],
                       operands[operand].available.front().spec);
  }

  // Returns whether an operand of a product has the axis on another factor that
  // occurs in all tensors, as experts do. Tokens may then go to their weights
  // (expert parallelism) instead of weights to tokens.
  bool shards_a_common_factor(const AxisName& axis, size_t batch) const {
    if (!is_product()) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      const FactorAxes axes = held_by(i);
      for (size_t f = 0; f < axes.size(); ++f) {
        if (f != batch && contains(axes[f], axis) && is_common(f)) return true;
      }
    }
    return false;
  }

  bool is_summed(size_t factor) const {
    return node.rule.factors[factor].kind == FactorKind::Sum;
  }
  bool is_product() const {
    return node.op->linearity == Linearity::Multilinear &&
           std::ranges::count(node.rule.factors, FactorKind::Sum,
                              &Factor::kind) > 0;
  }

  // The axes of a factor that are decided before anything is weighed.
  struct Bound {
    AxisNames stay;  // on the factor
    AxisNames leave;
  };

  // Makes the factors of a product keep or lose axes, whatever the bytes say.
  // The rows of a table that ids look up are treated alike, since they are also
  // summed over devices.
  void keep_products() {
    const bool product = is_product();
    if (!product && node.op->linearity != Linearity::None) return;
    std::vector<FactorAxes> held;
    for (size_t i = 0; i < operands.size(); ++i) held.push_back(held_by(i));
    std::vector<Bound> bounds(candidates.size());
    AxisNames bound;
    for (size_t i = 0; i < operands.size(); ++i) {
      for (size_t f = 0; f < held[i].size(); ++f) {
        for (const AxisName& axis : held[i][f]) {
          if (contains(batch_axes, axis) || contains(bound, axis)) continue;
          if (!product && !(operands[i].is_weight && is_summed(f))) continue;
          const auto stays = stays_on(held, i, f, axis);
          if (!stays) continue;
          (*stays ? bounds[f].stay : bounds[f].leave).push_back(axis);
          if (*stays) bound.push_back(axis);
        }
      }
    }
    for (size_t f = 0; f < bounds.size(); ++f) limit(f, bounds[f]);
  }

  // Limits a factor to the candidates that obey `bound`, if there are any.
  void limit(size_t factor, const Bound& bound) {
    std::vector<AxisNames> fitting;
    for (const AxisNames& axes : candidates[factor]) {
      if (!contains_any(bound.leave, axes) && contains_all(axes, bound.stay)) {
        fitting.push_back(axes);
      }
    }
    if (!fitting.empty()) candidates[factor] = std::move(fitting);
  }

  // Returns whether operand `i` keeps an axis that it has on a factor; nothing
  // if the bytes decide.
  std::optional<bool> stays_on(const std::vector<FactorAxes>& held, size_t i,
                               size_t f, const AxisName& axis) const {
    const bool is_sum = is_summed(f);
    bool elsewhere = false;
    for (size_t j = 0; j < held.size(); ++j) {
      if (j == i) continue;
      if (contains(held[j][f], axis)) {
        // Both operands are sharded alike.
        return is_sum || operands[i].is_weight || operands[j].is_weight
                   ? std::optional(true)
                   : std::nullopt;
      }
      elsewhere = elsewhere || has_axis(held[j], axis);
    }
    if (!operands[i].is_weight) return std::nullopt;
    const FactorAxes requested = factor_axes(mesh, node.rule, node.rule.result,
                                             wanted ? wanted->spec : suggested);
    const bool for_rows =
        !contains(requested[f], axis) && has_axis(requested, axis);
    if (is_sum) return !elsewhere && !for_rows;
    if (!elsewhere) return true;
    // Two dimensions of the result are to have the axis.
    if (wanted && has_axis(requested, axis)) return !for_rows;
    return !contains_any(batch_axes, held[i][f]);
  }

  static bool has_axis(const FactorAxes& factors, const AxisName& axis) {
    return std::ranges::any_of(
        factors, [&](const AxisNames& axes) { return contains(axes, axis); });
  }

  bool is_common(size_t factor) const {
    const auto has = [&](const std::vector<DimFactors>& dims) {
      return std::ranges::any_of(dims, [&](const DimFactors& dim) {
        return contains(dim, static_cast<int>(factor));
      });
    };
    return has(node.rule.result) &&
           std::ranges::all_of(node.rule.operands, has);
  }

  void assign(size_t factor) {
    if (factor == candidates.size()) {
      weigh_all();
      return;
    }
    for (const AxisNames& axes : candidates[factor]) {
      if (contains_any(used, axes)) continue;
      tried[factor] = axes;
      used.insert(used.end(), axes.begin(), axes.end());
      assign(factor + 1);
      used.resize(used.size() - axes.size());
    }
    tried[factor].clear();
  }

  // Returns the axes over which operand `i` may stay partial.
  AxisNames may_stay_partial(size_t i) const {
    const Layout& layout = operands[i].available.front();
    if (layout.reduction != Reduction::Sum) return {};
    AxisNames axes = layout.partial;
    erase_if(axes, [&](const AxisName& axis) { return contains(used, axis); });
    return axes;
  }

  // Weighs every way to treat operands that are partial sums.
  void weigh_all() {
    const std::vector<AxisNames> all_summed(operands.size());
    weigh(all_summed);
    if (node.op->linearity == Linearity::Multilinear) {
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!is_linear_in(*node.op, static_cast<int>(i))) continue;
        std::vector<AxisNames> partial = all_summed;
        partial[i] = may_stay_partial(i);
        if (!partial[i].empty()) weigh(partial);
      }
    } else if (node.op->linearity == Linearity::Additive) {
      AxisNames common = may_stay_partial(0);
      for (size_t i = 1; i < operands.size(); ++i) {
        const AxisNames mine = may_stay_partial(i);
        erase_if(common, [&](const AxisName& a) { return !contains(mine, a); });
      }
      if (!common.empty()) weigh(std::vector(operands.size(), common));
    }
  }

  // Returns the layout that the operation leaves; nothing if that is
  // impossible.
  std::optional<Layout> result_layout(const std::vector<AxisNames>& partial) {
    const std::optional<PartitionSpec> spec =
        spec_of(mesh, node.rule, node.rule.result, tried);
    if (!spec) return std::nullopt;
    Layout layout{*spec, {}, Reduction::Sum};
    bool sums = false;
    bool maxima = false;
    for (size_t f = 0; f < tried.size(); ++f) {
      const FactorKind kind = node.rule.factors[f].kind;
      if (tried[f].empty()) continue;
      if (kind != FactorKind::Sum && kind != FactorKind::Max) continue;
      (kind == FactorKind::Sum ? sums : maxima) = true;
      layout.partial.insert(layout.partial.end(), tried[f].begin(),
                            tried[f].end());
    }
    for (const AxisNames& axes : partial) {
      for (const AxisName& axis : axes) {
        sums = true;
        if (!contains(layout.partial, axis)) layout.partial.push_back(axis);
      }
    }
    if (sums && maxima) return std::nullopt;
    if (maxima) layout.reduction = Reduction::Max;
    layout.partial = in_mesh_order(mesh, layout.partial);
    return layout;
  }

  void weigh(const std::vector<AxisNames>& partial) {
    const std::optional<Layout> result = result_layout(partial);
    if (!result) return;
    NodeChoice choice{tried, {}, *result, batch_axes};
    double bytes = 0;
    size_t collectives = 0;
    std::vector<Shape> local;
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto spec = spec_of(mesh, node.rule, node.rule.operands[i], tried);
      if (!spec) return;
      const Layout layout{*spec, partial[i], Reduction::Sum};
      const Reshard* nearest = nullptr;
      for (const Layout& from : operands[i].available) {
        if (!covers(from, layout)) continue;
        const Reshard& reshard =
            reshards.find(*operands[i].shape, from, layout);
        if (nearest == nullptr || reshard.bytes < nearest->bytes) {
          nearest = &reshard;
        }
      }
      if (nearest == nullptr) return;
      bytes += nearest->bytes;
      collectives += nearest->steps.size();
      local.push_back(local_shape(mesh, layout, *operands[i].shape));
      choice.operands.push_back(layout);
    }
    const Shape local_result = local_shape(mesh, *result, result_shape);
    const TensorType type{DType::F32, local_result};
    // The number of elements fits 63 bits; the number of bytes need not.
    const auto result_bytes =
        static_cast<double>(wide_byte_count(type.elements(), type.dtype));
    bytes += settling(*result, result_bytes);
    const Weight weight{bytes, collectives,
                        node.op->flops(local, local_result, node.attributes),
                        result_bytes};
    if (!best || weight < best->first) best.emplace(weight, choice);
  }

  // Returns the bytes until the result is what is wanted: exact if a layout is
  // wanted, else those of an all-reduce, or half of that if the sum may be
  // scattered.
  double settling(const Layout& result, double local_bytes) {
    if (wanted) return reshards.find(result_shape, result, *wanted).bytes;
    if (result.partial.empty()) return 0;
    const auto n = static_cast<double>(shard_count(mesh, result.partial));
    const bool scattered = contains_all(axes_in(suggested), result.partial);
    return (scattered ? 1 : 2) * local_bytes * (n - 1) / n;
  }
};

}  // namespace

PerValue<PartitionSpec> suggest(const Graph& graph, const Mesh& mesh,
                                const PerValue<std::optional<Layout>>& wanted) {
  PerValue<PartitionSpec> specs(graph.values.size());
  for (const ValueId v : specs.ids()) {
    specs[v] = wanted[v] ? wanted[v]->spec
                         : replicated(graph.values[v].shape.size()).spec;
  }
  Spreader spreader{graph, mesh, wanted, specs};
  // Every change gives axes to a dimension that had none, so this ends.
  for (bool changed = true; changed;) {
    changed = false;
    for (const GraphNode& node : graph.nodes) changed |= spreader.spread(node);
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      changed |= spreader.spread(*node);
    }
  }
  return specs;
}

PerValue<std::vector<bool>> find_batch_dims(const Graph& graph) {
  PerValue<std::vector<bool>> batch(graph.values.size());
  for (const ValueId v : batch.ids()) {
    const Value& value = graph.values[v];
    batch[v].assign(value.shape.size(), false);
    if (value.is_weight) continue;
    for (size_t dim = 0; dim < value.axes.size(); ++dim) {
      batch[v][dim] = is_batch_label(value.axes[dim]);
    }
    if (value.kind == Value::Kind::Input && value.axes.empty() &&
        value.shape.size() >= 2) {
      batch[v][0] = true;
    }
  }
  for (const GraphNode& node : graph.nodes) {
    const ValueId result = node.result;
    if (graph.values[result].is_weight) continue;
    std::vector<bool> factors(node.rule.factors.size());
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      for (size_t dim = 0; dim < batch[operand].size(); ++dim) {
        const DimFactors& mine = node.rule.operands[i][dim];
        if (batch[operand][dim] && !mine.empty()) nth(factors, mine[0]) = true;
      }
    }
    for (size_t dim = 0; dim < batch[result].size(); ++dim) {
      const DimFactors& mine = node.rule.result[dim];
      if (!mine.empty() && nth(factors, mine[0])) batch[result][dim] = true;
    }
  }
  return batch;
}

NodeChoice choose(const Mesh& mesh, const GraphNode& node,
                  const std::vector<OperandChoice>& operands,
                  const Shape& result, const std::optional<Layout>& wanted,
                  const PartitionSpec& suggested, ReshardCache& reshards) {
  return Chooser{mesh, node, operands, result, wanted, suggested, reshards}
      .choose();
}

}  // namespace shardplan
