// SPDX-License-Identifier: Apache-2.0
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
class Spreader {
 public:
  Spreader(const Graph& graph, const Mesh& mesh,
           const PerValue<std::optional<Layout>>& wanted,
           PerValue<PartitionSpec>& specs)
      : graph_(graph), mesh_(mesh), wanted_(wanted), specs_(specs) {}

  // Returns whether anything changed.
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
  // Spreads the specs of a shard_map to its operands and result.
  bool suggest_mapped(const GraphNode& node) {
    bool changed = false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      changed |= give(node.shard_map->in_specs[i], node.operands[i]);
    }
    return give(node.shard_map->out_spec, node.result) || changed;
  }

  void take(const ShardingRule& rule, const std::vector<DimFactors>& dims,
            ValueId value, FactorAxes& axes, AxisNames& used) {
    const FactorAxes mine = factor_axes(mesh_, rule, dims, specs_[value]);
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
            ValueId value, const FactorAxes& axes) {
    const std::optional<PartitionSpec> spec = spec_of(mesh_, rule, dims, axes);
    return spec && give(*spec, value);
  }

  // Gives axes to dimensions that have none yet; returns whether any changed.
  bool give(const PartitionSpec& written, ValueId value) {
    if (wanted_[value]) return false;
    const PartitionSpec spec =
        layout_of(mesh_, written, graph_.values[value].shape.size()).spec;
    bool changed = false;
    for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
      AxisNames& mine = specs_[value].dims[dim];
      const AxisNames& theirs = spec.dims[dim];
      if (!mine.empty() || theirs.empty()) continue;
      const bool free = std::none_of(
          specs_[value].dims.begin(), specs_[value].dims.end(),
          [&](const AxisNames& other) {
            return std::any_of(
                theirs.begin(), theirs.end(),
                [&](const AxisName& axis) { return contains(other, axis); });
          });
      const int64_t size = graph_.values[value].shape[dim];
      if (!free || size % shard_count(mesh_, theirs) != 0) continue;
      mine = theirs;
      changed = true;
    }
    return changed;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const PerValue<std::optional<Layout>>& wanted_;
  PerValue<PartitionSpec>& specs_;
};

// Accepts eformer's token and the names that flax and MaxText give the axis.
bool is_batch_label(std::string_view label) {
  return label == "BATCH" || label == "__BATCH__" || label == "batch" ||
         label == "activation_batch";
}

}  // namespace

PerValue<PartitionSpec> suggest(const Graph& graph, const Mesh& mesh,
                                const PerValue<std::optional<Layout>>& wanted) {
  PerValue<PartitionSpec> specs(graph.values.size());
  for (const ValueId v : specs.ids()) {
    specs[v] = wanted[v] ? wanted[v]->spec
                         : replicated(graph.values[v].shape.size()).spec;
  }
  Spreader spreader(graph, mesh, wanted, specs);
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

namespace {

// Operations have few factors, and tensors have few axes. Beyond this many
// assignments, only the first candidate of each factor is weighed.
constexpr int64_t kMaxAssignments = 20'000;

// The bytes, the collectives before the operation, the operations of one
// device, and the bytes of the result.
using Weight = std::tuple<double, size_t, int64_t, double>;

bool contains_all(const AxisNames& axes, const AxisNames& some) {
  return std::all_of(some.begin(), some.end(), [&](const AxisName& axis) {
    return contains(axes, axis);
  });
}

class Chooser {
 public:
  Chooser(const Mesh& mesh, const GraphNode& node,
          const std::vector<OperandChoice>& operands, const Shape& result,
          const std::optional<Layout>& wanted, const PartitionSpec& suggested,
          ReshardCache& reshards)
      : mesh_(mesh),
        node_(node),
        operands_(operands),
        result_(result),
        wanted_(wanted),
        suggested_(suggested),
        reshards_(reshards),
        candidates_(node.rule.factors.size()),
        axes_(node.rule.factors.size()) {}

  NodeChoice choose() {
    collect();
    const auto all = candidates_;
    keep_products();
    assign(0);
    if (!best_) {
      candidates_ = all;
      assign(0);
    }
    SHARDPLAN_CHECK(best_.has_value());
    return std::move(best_->second);
  }

 private:
  void propose(const std::vector<DimFactors>& dims, const PartitionSpec& spec) {
    const FactorAxes axes = factor_axes(mesh_, node_.rule, dims, spec);
    for (size_t f = 0; f < axes.size(); ++f) {
      for (size_t count = axes[f].size(); count > 0; --count) {
        add_candidate(f, {axes[f].begin(),
                          axes[f].begin() + static_cast<ptrdiff_t>(count)});
      }
      // Answers of experts return over the axes that shard the batch, which may
      // be the first of the experts' axes, and are summed over the rest.
      if (node_.op->exchange != TokenExchange::FromExperts) continue;
      for (size_t first = 1; first < axes[f].size(); ++first) {
        add_candidate(f, {axes[f].begin() + static_cast<ptrdiff_t>(first),
                          axes[f].end()});
      }
    }
  }

  void add_candidate(size_t factor, const AxisNames& axes) {
    auto& known = candidates_[factor];
    if (std::find(known.begin(), known.end(), axes) == known.end()) {
      known.push_back(axes);
    }
  }

  void collect() {
    for (size_t i = 0; i < operands_.size(); ++i) {
      for (const Layout& layout : operands_[i].available) {
        propose(node_.rule.operands[i], layout.spec);
      }
    }
    propose(node_.rule.result, wanted_ ? wanted_->spec : suggested_);
    for (auto& of_factor : candidates_) of_factor.emplace_back();
    keep_batches();
    int64_t assignments = 1;
    for (auto& of_factor : candidates_) {
      assignments *= static_cast<int64_t>(of_factor.size());
      if (assignments <= kMaxAssignments) continue;
      assignments /= static_cast<int64_t>(of_factor.size());
      if (of_factor.size() > 1) of_factor = {of_factor.front(), {}};
      assignments = std::min(assignments * 2, kMaxAssignments);
    }
  }

  // Returns whether a dimension, the last but one, begins with groups of
  // tokens, each of which is sent to experts separately.
  bool are_token_groups(const std::vector<DimFactors>& dims, size_t dim) const {
    if (node_.op->exchange == TokenExchange::None || dim + 2 != dims.size()) {
      return false;
    }
    const auto major = static_cast<size_t>(dims[dim].front());
    return node_.rule.factors[major].kind == FactorKind::Pass;
  }

  // Lets a batch factor keep the axes that it has, if operands agree on them.
  // If an operand has more of them than the others, the factor keeps them all.
  void keep_batches() {
    std::vector<AxisNames> kept(candidates_.size());
    std::vector<bool> disputed(candidates_.size());
    for (size_t i = 0; i < operands_.size(); ++i) {
      const FactorAxes axes = held_by(i);
      for (size_t dim = 0; dim < operands_[i].batch.size(); ++dim) {
        const DimFactors& factors = node_.rule.operands[i][dim];
        if (factors.empty() ||
            !(operands_[i].batch[dim] ||
              are_token_groups(node_.rule.operands[i], dim))) {
          continue;
        }
        const auto f = static_cast<size_t>(factors[0]);
        disputed[f] = disputed[f] || !(contains_all(kept[f], axes[f]) ||
                                       contains_all(axes[f], kept[f]));
        if (axes[f].size() > kept[f].size()) kept[f] = axes[f];
      }
    }
    for (size_t f = 0; f < kept.size(); ++f) {
      if (kept[f].empty() || disputed[f]) continue;
      candidates_[f] = {kept[f]};
      batch_axes_.insert(batch_axes_.end(), kept[f].begin(), kept[f].end());
      AxisNames rest = kept[f];
      erase_if(rest, [&](const AxisName& axis) {
        return shards_a_common_factor(axis, f);
      });
      if (rest != kept[f]) candidates_[f].push_back(rest);
    }
  }

  FactorAxes held_by(size_t operand) const {
    return factor_axes(mesh_, node_.rule, node_.rule.operands[operand],
                       operands_[operand].available.front().spec);
  }

  // Returns whether an operand of a product has the axis on another factor that
  // occurs in all tensors, as experts do. Tokens may then go to their weights
  // (expert parallelism) instead of weights to tokens.
  bool shards_a_common_factor(const AxisName& axis, size_t batch) const {
    if (!is_product()) return false;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const FactorAxes axes = held_by(i);
      for (size_t f = 0; f < axes.size(); ++f) {
        if (f != batch && contains(axes[f], axis) && is_common(f)) return true;
      }
    }
    return false;
  }

  bool is_summed(size_t factor) const {
    return node_.rule.factors[factor].kind == FactorKind::Sum;
  }
  bool is_product() const {
    const auto& factors = node_.rule.factors;
    return node_.op->linearity == Linearity::Multilinear &&
           std::any_of(factors.begin(), factors.end(),
                       [](const Factor& factor) {
                         return factor.kind == FactorKind::Sum;
                       });
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
    if (!product && node_.op->linearity != Linearity::None) return;
    std::vector<FactorAxes> held;
    for (size_t i = 0; i < operands_.size(); ++i) held.push_back(held_by(i));
    std::vector<Bound> bounds(candidates_.size());
    AxisNames bound;
    for (size_t i = 0; i < operands_.size(); ++i) {
      for (size_t f = 0; f < held[i].size(); ++f) {
        for (const AxisName& axis : held[i][f]) {
          if (contains(batch_axes_, axis) || contains(bound, axis)) continue;
          if (!product && !(operands_[i].is_weight && is_summed(f))) continue;
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
    for (const AxisNames& axes : candidates_[factor]) {
      const bool leaves = std::none_of(
          axes.begin(), axes.end(),
          [&](const AxisName& axis) { return contains(bound.leave, axis); });
      if (leaves && contains_all(axes, bound.stay)) fitting.push_back(axes);
    }
    if (!fitting.empty()) candidates_[factor] = std::move(fitting);
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
        return is_sum || operands_[i].is_weight || operands_[j].is_weight
                   ? std::optional(true)
                   : std::nullopt;
      }
      elsewhere = elsewhere || has_axis(held[j], axis);
    }
    if (!operands_[i].is_weight) return std::nullopt;
    const FactorAxes requested =
        factor_axes(mesh_, node_.rule, node_.rule.result,
                    wanted_ ? wanted_->spec : suggested_);
    const bool for_rows =
        !contains(requested[f], axis) && has_axis(requested, axis);
    if (is_sum) return !elsewhere && !for_rows;
    if (!elsewhere) return true;
    // Two dimensions of the result are to have the axis.
    if (wanted_ && has_axis(requested, axis)) return !for_rows;
    return std::none_of(
        held[i][f].begin(), held[i][f].end(),
        [&](const AxisName& other) { return contains(batch_axes_, other); });
  }

  static bool has_axis(const FactorAxes& factors, const AxisName& axis) {
    return std::any_of(
        factors.begin(), factors.end(),
        [&](const AxisNames& axes) { return contains(axes, axis); });
  }

  bool is_common(size_t factor) const {
    const auto has = [&](const std::vector<DimFactors>& dims) {
      return std::any_of(dims.begin(), dims.end(), [&](const DimFactors& dim) {
        return std::find(dim.begin(), dim.end(), static_cast<int>(factor)) !=
               dim.end();
      });
    };
    return has(node_.rule.result) &&
           std::all_of(node_.rule.operands.begin(), node_.rule.operands.end(),
                       has);
  }

  void assign(size_t factor) {
    if (factor == candidates_.size()) {
      weigh_all();
      return;
    }
    for (const AxisNames& axes : candidates_[factor]) {
      const bool free = std::none_of(
          axes.begin(), axes.end(),
          [&](const AxisName& axis) { return contains(used_, axis); });
      if (!free) continue;
      axes_[factor] = axes;
      used_.insert(used_.end(), axes.begin(), axes.end());
      assign(factor + 1);
      used_.resize(used_.size() - axes.size());
    }
    axes_[factor].clear();
  }

  // Returns the axes over which operand `i` may stay partial.
  AxisNames may_stay_partial(size_t i) const {
    AxisNames axes;
    const Layout& layout = operands_[i].available.front();
    if (layout.reduction != Reduction::Sum) return axes;
    for (const AxisName& axis : layout.partial) {
      if (!contains(used_, axis)) axes.push_back(axis);
    }
    return axes;
  }

  // Weighs every way to treat operands that are partial sums.
  void weigh_all() {
    const std::vector<AxisNames> all_summed(operands_.size());
    weigh(all_summed);
    if (node_.op->linearity == Linearity::Multilinear) {
      for (size_t i = 0; i < operands_.size(); ++i) {
        if (!is_linear_in(*node_.op, static_cast<int>(i))) continue;
        std::vector<AxisNames> partial = all_summed;
        partial[i] = may_stay_partial(i);
        if (!partial[i].empty()) weigh(partial);
      }
    } else if (node_.op->linearity == Linearity::Additive) {
      AxisNames common = may_stay_partial(0);
      for (size_t i = 1; i < operands_.size(); ++i) {
        const AxisNames mine = may_stay_partial(i);
        erase_if(common, [&](const AxisName& a) { return !contains(mine, a); });
      }
      if (!common.empty()) weigh(std::vector(operands_.size(), common));
    }
  }

  // Returns the layout that the operation leaves; nothing if that is
  // impossible.
  std::optional<Layout> result_layout(const std::vector<AxisNames>& partial) {
    const std::optional<PartitionSpec> spec =
        spec_of(mesh_, node_.rule, node_.rule.result, axes_);
    if (!spec) return std::nullopt;
    Layout layout{*spec, {}, Reduction::Sum};
    bool sums = false;
    bool maxima = false;
    for (size_t f = 0; f < axes_.size(); ++f) {
      const FactorKind kind = node_.rule.factors[f].kind;
      if (axes_[f].empty()) continue;
      if (kind != FactorKind::Sum && kind != FactorKind::Max) continue;
      (kind == FactorKind::Sum ? sums : maxima) = true;
      layout.partial.insert(layout.partial.end(), axes_[f].begin(),
                            axes_[f].end());
    }
    for (const AxisNames& axes : partial) {
      for (const AxisName& axis : axes) {
        sums = true;
        if (!contains(layout.partial, axis)) layout.partial.push_back(axis);
      }
    }
    if (sums && maxima) return std::nullopt;
    if (maxima) layout.reduction = Reduction::Max;
    layout.partial = in_mesh_order(mesh_, layout.partial);
    return layout;
  }

  void weigh(const std::vector<AxisNames>& partial) {
    const std::optional<Layout> result = result_layout(partial);
    if (!result) return;
    NodeChoice choice{axes_, {}, *result, batch_axes_};
    double bytes = 0;
    size_t collectives = 0;
    std::vector<Shape> local;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto spec =
          spec_of(mesh_, node_.rule, node_.rule.operands[i], axes_);
      if (!spec) return;
      const Layout layout{*spec, partial[i], Reduction::Sum};
      const Reshard* nearest = nullptr;
      for (const Layout& from : operands_[i].available) {
        if (!covers(from, layout)) continue;
        const Reshard& reshard =
            reshards_.find(*operands_[i].shape, from, layout);
        if (nearest == nullptr || reshard.bytes < nearest->bytes)
          nearest = &reshard;
      }
      if (nearest == nullptr) return;
      bytes += nearest->bytes;
      collectives += nearest->steps.size();
      local.push_back(local_shape(mesh_, layout, *operands_[i].shape));
      choice.operands.push_back(layout);
    }
    const Shape local_result = local_shape(mesh_, *result, result_);
    const TensorType type{DType::F32, local_result};
    // The number of elements fits 63 bits; the number of bytes need not.
    const auto result_bytes =
        static_cast<double>(wide_byte_count(type.elements(), type.dtype));
    bytes += settling(*result, result_bytes);
    const Weight weight{bytes, collectives,
                        node_.op->flops(local, local_result, node_.attributes),
                        result_bytes};
    if (!best_ || weight < best_->first) best_.emplace(weight, choice);
  }

  // Returns the bytes until the result is what is wanted: exact if a layout is
  // wanted, else those of an all-reduce, or half of that if the sum may be
  // scattered.
  double settling(const Layout& result, double local_bytes) {
    if (wanted_) return reshards_.find(result_, result, *wanted_).bytes;
    if (result.partial.empty()) return 0;
    const auto n = static_cast<double>(shard_count(mesh_, result.partial));
    bool scattered = true;
    for (const AxisName& axis : result.partial) {
      scattered = scattered &&
                  std::any_of(suggested_.dims.begin(), suggested_.dims.end(),
                              [&](const AxisNames& dim) {
                                return contains(dim, axis);
                              });
    }
    return (scattered ? 1 : 2) * local_bytes * (n - 1) / n;
  }

  const Mesh& mesh_;
  const GraphNode& node_;
  const std::vector<OperandChoice>& operands_;
  const Shape& result_;
  const std::optional<Layout>& wanted_;
  const PartitionSpec& suggested_;
  ReshardCache& reshards_;
  std::vector<std::vector<AxisNames>> candidates_;  // per factor
  FactorAxes axes_;                                 // currently tried
  AxisNames used_;
  AxisNames batch_axes_;
  std::optional<std::pair<Weight, NodeChoice>> best_;
};

}  // namespace

NodeChoice choose(const Mesh& mesh, const GraphNode& node,
                  const std::vector<OperandChoice>& operands,
                  const Shape& result, const std::optional<Layout>& wanted,
                  const PartitionSpec& suggested, ReshardCache& reshards) {
  return Chooser(mesh, node, operands, result, wanted, suggested, reshards)
      .choose();
}

}  // namespace shardplan
