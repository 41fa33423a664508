// SPDX-License-Identifier: Apache-2.0
// Follows layouts through a graph, operation by operation.
#include "spmd/hooked.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

using Task = ModuleHook::Task;
using Wants = HookedFault::Wants;

constexpr const char* kSummedTwice =
    "each device already has the full value, and a hook sums it again";

// Returns words for a layout, such as "replicated".
std::string layout_words(const HookedLayout& layout, size_t rank) {
  if (layout.partial) return "a partial sum";
  if (layout.cut < 0) return "replicated";
  if (layout.cut + 1 == static_cast<int>(rank)) {
    return "sharded along its last dimension";
  }
  return "sharded along dimension " + std::to_string(layout.cut);
}

HookedLayout hooked_layout(HookLayout layout, size_t rank) {
  HookedLayout result;
  if (layout == HookLayout::Last) result.cut = static_cast<int>(rank) - 1;
  if (layout == HookLayout::Tokens) result.cut = 1;
  return result;
}

class HookedWalker {
 public:
  HookedWalker(const Graph& graph, const HookedPlan& plan)
      : graph_(graph),
        plan_(plan),
        layouts_(graph.values.size()),
        experts_(graph.nodes.size(), -1),
        norms_(graph.nodes.size(), -1),
        inside_(plan.containers.size(),
                PerValue<bool>(graph.values.size(), false)),
        weight_source_(graph.values.size()),
        sums_parts_(graph.values.size()),
        is_table_(graph.values.size()),
        biased_(graph.values.size()) {}

  HookedWalk run() {
    for (const ValueId v : graph_.values.ids()) {
      if (graph_.values[v].kind != Value::Kind::Parameter) continue;
      layouts_[v].cut = plan_.cut[v];
      layouts_[v].packed = plan_.packed[v];
      for (const int c : plan_.around[v]) nth(inside_, c)[v] = true;
    }
    if (!look_around()) return std::move(result_);
    for (const NodeId n : graph_.nodes.ids()) {
      if (!visit(n)) return std::move(result_);
    }
    for (const ValueId v : graph_.outputs) {
      // A loss of DTensors knows what each device holds.
      if (layouts_[v].is_whole() || layouts_[v].dtensor) continue;
      fault(false, v, {},
            layouts_[v].partial ? "each device holds only a partial sum"
                                : "each device holds only its shard",
            Wants::GathersOutput);
      return std::move(result_);
    }
    for (const ValueId v : graph_.values.ids()) {
      if (layouts_[v].summed_from == v && !sums_parts_[v]) {
        wrong_gradient(v, kSummedTwice, Wants::LeavesGradients);
      }
    }
    result_.layouts = std::move(layouts_);
    return std::move(result_);
  }

 private:
  const Value& value(ValueId v) const { return graph_.values[v]; }
  bool is_parameter(ValueId v) const {
    return value(v).kind == Value::Kind::Parameter;
  }
  size_t rank(ValueId v) const { return value(v).shape.size(); }

  bool fault(bool shapes, ValueId v, ValueId operand, std::string why,
             Wants wants = Wants::MatchingStyles) {
    if (operand && layouts_[operand].dtensor) {
      return unknown(
          in_backticks(value(operand).name) +
          " is a DTensor, whose operations insert their own collectives");
    }
    result_.fault = HookedFault{shapes, v, operand, std::move(why), wants};
    return false;
  }
  bool unknown(std::string why) {
    result_.unknown = std::move(why);
    return false;
  }
  void wrong_gradient(ValueId v, std::string why, Wants wants) {
    if (!result_.gradient) {
      result_.gradient = HookedFault{false, v, {}, std::move(why), wants};
    }
  }

  // Returns which operand is the weight of a module's product or lookup.
  std::optional<size_t> weight_of(const GraphNode& node) const {
    if (!node.op->is_product && !node.op->is_lookup) return std::nullopt;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (is_parameter(node.operands[o])) return o;
    }
    return std::nullopt;
  }
  // Returns which operand is a bias that is added before the module's output is
  // gathered or reduced.
  std::optional<size_t> bias_of(const GraphNode& node) const {
    if (node.op->second_sign == 0) return std::nullopt;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const ValueId v = node.operands[o];
      if (is_parameter(v) && plan_.cut[v] >= 0 &&
          plan_.hook[v].output_layout == HookLayout::Whole) {
        return o;
      }
    }
    return std::nullopt;
  }

  // Finds tables, biases, experts, and norms whose modules have hooks; returns
  // false if the hooks of a norm are unknown.
  bool look_around() {
    for (const NodeId n : graph_.nodes.ids()) {
      const GraphNode& node = graph_.nodes[n];
      if (node.op->is_lookup) is_table_[node.operands[0]] = true;
      if (const auto bias = bias_of(node)) {
        biased_[node.operands[1 - *bias]] = true;
      }
    }
    for (size_t r = 0; r < graph_.regions.size(); ++r) {
      const Region& region = graph_.regions[r];
      const int number = static_cast<int>(r);
      if (region.kind == Region::Kind::Experts) {
        for (const NodeId n : region.nodes) experts_[n] = number;
        if (region.router) routers_.push_back(region.router);
      }
      if (region.kind != Region::Kind::Norm) continue;
      for (const NodeId n : region.nodes) {
        for (const ValueId v : graph_.nodes[n].operands) {
          if (!is_parameter(v)) continue;
          if (!plan_.hook[v].is_known()) return unknown_hook(v);
          if (plan_.hook[v].input_layout == HookLayout::AsIs) continue;
          norm_hooks_[number] = {plan_.hook[v], v};
        }
      }
      if (!norm_hooks_.contains(number)) continue;
      for (const NodeId n : region.nodes) norms_[n] = number;
    }
    return true;
  }
  bool unknown_hook(ValueId v) {
    return unknown("the hooks of the module of " +
                   in_backticks(value(v).parameter) + " are not supported");
  }

  // Returns the hook of the experts that an operation belongs to; without a
  // task if it belongs to none.
  ModuleHook experts_of(NodeId n) const {
    return experts_[n] < 0 ? ModuleHook{.task = Task::None}
                           : nth(plan_.experts, experts_[n]);
  }
  static bool adds_up(const ModuleHook& experts) {
    return experts.task == Task::SumExperts || experts.task == Task::OwnExperts;
  }

  ModuleHook hook_of(const GraphNode& node, ValueId weight) const {
    const bool is_head = is_table_[weight] && !node.op->is_lookup;
    return is_head ? plan_.tied_head : plan_.hook[weight];
  }

  bool visit(NodeId n) {
    const GraphNode& node = graph_.nodes[n];
    if (node.shard_map) {
      return unknown("the graph specifies what each device computes");
    }
    std::vector<HookedLayout> operands;
    for (const ValueId v : node.operands) {
      operands.push_back(layouts_[v]);
      if (!is_parameter(v)) continue;
      if (plan_.stray[v]) {
        return fault(true, node.result, v,
                     "its module has no hook for reading a shard",
                     Wants::ReadsShards);
      }
      const bool is_placed = plan_.hook[v].input_layout == HookLayout::AsIs ||
                             node.op->is_product || node.op->is_lookup ||
                             node.op->second_sign != 0 || norms_[n] >= 0;
      if (!is_placed) return unknown_hook(v);
    }
    ModuleHook hook = {.task = Task::None};
    if (!enter(n, operands, hook)) return false;
    HookedLayout result;
    const ModuleHook experts = experts_of(n);
    if (!experts.is_known()) {
      return unknown("the hooks of the experts are not supported");
    }
    const bool dispatches = node.op->exchange == TokenExchange::ToExperts &&
                            experts.task == Task::OwnExperts;
    if (dispatches ? !dispatch_to_experts(node, operands, result)
                   : !compute(n, operands, result)) {
      return false;
    }
    check_gradients(n, operands, hook, result);
    if (!leave(n, hook, result)) return false;
    layouts_[node.result] = result;
    for (PerValue<bool>& inside : inside_) {
      inside[node.result] = std::ranges::any_of(
          node.operands, [&](ValueId v) { return inside[v]; });
    }
    return true;
  }

  // Brings operands to the layouts in which a module reads them. Sets `hook` to
  // the module's hook if the operation is its product.
  bool enter(NodeId n, std::vector<HookedLayout>& operands, ModuleHook& hook) {
    const GraphNode& node = graph_.nodes[n];
    const auto weight = weight_of(node);
    const bool is_norm = norms_[n] >= 0;
    if (!weight && !is_norm) return true;
    ValueId of;
    ModuleHook own;
    if (weight) {
      of = node.operands[*weight];
      own = hook = hook_of(node, of);
      if (!own.is_known()) return unknown_hook(of);
      if (contains(routers_, n) && own.input_layout != HookLayout::AsIs) {
        return unknown("whether the router of " +
                       in_backticks(value(of).parameter) +
                       " is a linear layer depends on the version of the "
                       "library");
      }
    } else {
      std::tie(own, of) = norm_hooks_.at(norms_[n]);
      if (own.output_layout == HookLayout::Last ||
          own.desired_input_layout == HookLayout::Last) {
        return fault(true, node.result, of,
                     "its style needs a linear layer, and a norm is not one");
      }
    }
    for (size_t o = 0; o < operands.size(); ++o) {
      const ValueId v = node.operands[o];
      if (is_parameter(v) || (is_norm && !contains(norm_of(n).inputs, v))) {
        continue;
      }
      for (const int c : plan_.around[of]) {
        if (nth(inside_, c)[v]) continue;
        const ModuleHook& outer = nth(plan_.containers, c);
        if (!apply_input_hook(node, v, outer, operands[o])) return false;
        operands[o].dtensor = outer.output_is_dtensor;
      }
      if (!apply_input_hook(node, v, own, operands[o])) return false;
    }
    return true;
  }
  const Region& norm_of(NodeId n) const {
    return nth(graph_.regions, norms_[n]);
  }

  // Applies a hook to an input: checks the layout that the hook expects, and
  // converts the value to the layout in which the module reads it.
  bool apply_input_hook(const GraphNode& node, ValueId v,
                        const ModuleHook& hook, HookedLayout& layout) {
    if (!hook.is_known()) {
      return unknown("a hook on " + in_backticks(value(v).name) +
                     " is not supported");
    }
    if (hook.input_layout == HookLayout::AsIs) return true;
    const HookedLayout expected = hooked_layout(hook.input_layout, rank(v));
    if (expected.cut != layout.cut || layout.partial) {
      // A module computes with a shard that it mistakes for the whole.
      const bool stops = hook.input_layout != HookLayout::Whole ||
                         layout.cut + 1 == std::ssize(value(v).shape);
      return fault(stops && !layout.partial, node.result, v,
                   "a hook expects it to be " +
                       layout_words(expected, rank(v)) + ", but it is " +
                       layout_words(layout, rank(v)),
                   hook.input_layout == HookLayout::Last && layout.is_whole()
                       ? Wants::SplitsInput
                       : Wants::MatchingStyles);
    }
    if (hook.desired_input_layout == HookLayout::AsIs ||
        hook.desired_input_layout == hook.input_layout) {
      return true;
    }
    const HookedLayout read = hooked_layout(hook.desired_input_layout, rank(v));
    if (!divides(v, read)) {
      return fault(true, node.result, v, "it does not divide into equal parts");
    }
    layout.cut = read.cut;
    layout.packed = false;
    return true;
  }

  // Returns whether a layout cuts a value into equal parts.
  bool divides(ValueId v, const HookedLayout& layout) const {
    return layout.cut < 0 ||
           (layout.cut < std::ssize(value(v).shape) &&
            nth(value(v).shape, layout.cut) % plan_.ranks == 0);
  }

  // Brings the result to the layout in which the module leaves it.
  bool leave(NodeId n, const ModuleHook& hook, HookedLayout& result) {
    const GraphNode& node = graph_.nodes[n];
    const ValueId v = node.result;
    if (node.op->exchange == TokenExchange::FromExperts &&
        adds_up(experts_of(n))) {
      if (!result.partial) {
        return fault(false, v, {},
                     "its hook all-reduces values that are not partial sums");
      }
      result = {};
      return true;
    }
    if (hook.task == Task::SumOutputGradients) result.summed_from = v;
    if (const auto bias = bias_of(node)) {
      return apply_output_hook(v, plan_.hook[node.operands[*bias]], result);
    }
    if (norms_[n] >= 0) {
      if (norm_of(n).nodes.back() != n) return true;
      return apply_output_hook(v, norm_hooks_.at(norms_[n]).first, result);
    }
    return biased_[v] || apply_output_hook(v, hook, result);
  }
  bool apply_output_hook(ValueId v, const ModuleHook& hook,
                         HookedLayout& result) {
    if (hook.output_layout != HookLayout::AsIs) {
      if (result.is_whole()) {
        return fault(false, v, {},
                     "its hook gathers a value that every device has in full");
      }
      const HookedLayout wanted = hooked_layout(hook.output_layout, rank(v));
      if (!divides(v, wanted)) {
        return fault(true, v, {}, "it does not divide evenly");
      }
      if (wanted.cut != result.cut || result.partial) {
        result = {.cut = wanted.cut, .summed_from = result.summed_from};
      }
    }
    if (hook.input_layout != HookLayout::AsIs) {
      result.dtensor = hook.output_is_dtensor;
    }
    return true;
  }

  // Sends tokens to the experts that each device has.
  bool dispatch_to_experts(const GraphNode& node,
                           const std::vector<HookedLayout>& operands,
                           HookedLayout& result) {
    for (size_t o = 0; o < operands.size(); ++o) {
      if (operands[o].is_whole()) continue;
      return fault(true, node.result, node.operands[o],
                   "each device holds only a part of it, but tokens are "
                   "dispatched to experts");
    }
    if (value(node.result).shape.front() % plan_.ranks != 0) {
      return fault(true, node.result, {}, "experts do not divide evenly");
    }
    result.cut = 0;
    return true;
  }

  // Returns the parameter that a weight is made of, else the value itself.
  ValueId source(ValueId v) const {
    return weight_source_[v] ? weight_source_[v] : v;
  }

  // Returns whether a hook adds up the gradient of what the operation reads
  // whole.
  bool sums_gradient(NodeId n, ValueId v, const ModuleHook& hook) const {
    if (is_parameter(source(v))) {
      const ModuleHook& own = plan_.hook[source(v)];
      return own.task == Task::SumGradients ||
             own.input_layout == HookLayout::Tokens;
    }
    return hook.input_layout != HookLayout::AsIs || adds_up(experts_of(n));
  }

  // Checks that some hook adds up partial gradients: a whole operand that meets
  // a shard has one.
  void check_gradients(NodeId n, const std::vector<HookedLayout>& operands,
                       const ModuleHook& hook, HookedLayout& result) {
    const GraphNode& node = graph_.nodes[n];
    if (std::ranges::any_of(operands, &HookedLayout::dtensor)) return;
    const bool is_partial = !result.is_whole();
    for (size_t o = 0; o < operands.size(); ++o) {
      const ValueId v = node.operands[o];
      // A result made of weights alone is a weight.
      if (value(node.result).is_weight && value(v).is_weight) {
        weight_source_[node.result] = source(v);
        continue;
      }
      if (!operands[o].is_whole() || value(v).is_integer() ||
          !(value(v).learned || is_parameter(v)) || value(v).frozen) {
        continue;
      }
      bool is_summed = sums_gradient(n, v, hook);
      const ValueId from = operands[o].summed_from;
      if (from && !is_partial) result.summed_from = from;
      if (from && is_partial && !is_summed) {
        is_summed = true;
        sums_parts_[from] = true;
      }
      if (is_partial && !is_summed) {
        wrong_gradient(
            source(v),
            "each device has a partial sum of it, and no hook reduces it",
            Wants::SumsGradients);
      } else if (!is_partial && is_parameter(source(v)) &&
                 plan_.hook[source(v)].task == Task::SumGradients) {
        wrong_gradient(source(v), kSummedTwice, Wants::LeavesGradients);
      }
    }
  }

  // Returns the major factor of a dimension, which sharding splits; -1 if it
  // has none.
  static int factor_of(const DimFactors& dim) {
    return dim.empty() ? -1 : dim.front();
  }

  bool compute(NodeId n, const std::vector<HookedLayout>& operands,
               HookedLayout& result) {
    const GraphNode& node = graph_.nodes[n];
    result.dtensor = std::ranges::any_of(operands, &HookedLayout::dtensor);
    if (result.dtensor && !can_mix(n)) return false;
    if (std::ranges::all_of(operands, &HookedLayout::is_whole)) return true;
    const ShardingRule& rule = node.rule;
    int cut = -1;  // the factor
    size_t from = 0;
    for (size_t o = 0; o < operands.size(); ++o) {
      if (operands[o].cut < 0) continue;
      const int factor = factor_of(nth(rule.operands[o], operands[o].cut));
      if (factor < 0 || nth(rule.factors, factor).size % plan_.ranks != 0) {
        return fault(true, node.result, node.operands[o],
                     "its shards split heads, or other pieces that the "
                     "operation needs whole");
      }
      if (cut >= 0 && cut != factor) {
        return fault(true, node.result, node.operands[o],
                     "it is sharded along a different dimension than " +
                         in_backticks(value(node.operands[from]).name));
      }
      cut = factor;
      from = o;
      result.packed = operands[o].packed;
    }
    if (!adds_parts(node, operands, result)) return false;
    if (cut < 0) return true;
    if (result.partial) {
      return fault(false, node.result, {},
                   "it is both a partial sum and sharded");
    }
    for (size_t o = 0; o < operands.size(); ++o) {
      const auto& dims = rule.operands[o];
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!contains(dims[d], cut)) continue;
        if (operands[o].cut == static_cast<int>(d) &&
            factor_of(dims[d]) == cut) {
          continue;
        }
        if (value(node.operands[o]).is_weight &&
            experts_of(n).task == Task::OwnExperts) {
          return fault(
              false, node.result, node.operands[o],
              "each device looks up its own experts among all of them");
        }
        return fault(true, node.result, node.operands[o],
                     "it is replicated, but " +
                         in_backticks(value(node.operands[from]).name) +
                         " is sharded",
                     value(node.operands[o]).is_weight && !node.op->is_product
                         ? Wants::CutsParameter
                         : Wants::MatchingStyles);
      }
    }
    return place(node, cut, operands[from], result);
  }

  // Returns whether DTensors may be operands here. They meet no other tensors
  // except parameters of modules with styles, which are also DTensors. Any
  // other operation on one may send something.
  bool can_mix(NodeId n) {
    const GraphNode& node = graph_.nodes[n];
    const auto weight = weight_of(node);
    if (!weight && norms_[n] < 0) {
      return unknown(
          in_backticks(value(node.result).name) +
          " is computed from DTensors, which insert their own collectives");
    }
    if (!weight) return true;
    const ValueId v = node.operands[*weight];
    if (plan_.hook[v].input_layout != HookLayout::AsIs) return true;
    return fault(true, node.result, v,
                 "its other operand is a DTensor, and no style makes it one");
  }

  // Marks results that are parts of a sum: only operations that are linear in
  // such operands give them. Any other operation on them is a fault.
  bool adds_parts(const GraphNode& node,
                  const std::vector<HookedLayout>& operands,
                  HookedLayout& result) {
    const auto parts = std::ranges::count_if(operands, &HookedLayout::partial);
    if (parts == 0) return true;
    result.partial = true;
    const bool all = parts == std::ssize(operands);
    if (all && (node.op->linearity == Linearity::Additive ||
                (parts == 1 && node.op->linearity != Linearity::None))) {
      return true;
    }
    const auto first = std::ranges::find_if(operands, &HookedLayout::partial) -
                       operands.begin();
    if (parts == 1 && is_linear_in(*node.op, static_cast<int>(first))) {
      return true;
    }
    return fault(false, node.result, nth(node.operands, first),
                 "each device holds only a partial sum of it");
  }

  // Sets the result's layout from the factor that is sharded.
  bool place(const GraphNode& node, int cut, const HookedLayout& from,
             HookedLayout& result) {
    const ShardingRule& rule = node.rule;
    const FactorKind kind = nth(rule.factors, cut).kind;
    for (size_t d = 0; d < rule.result.size(); ++d) {
      if (!contains(rule.result[d], cut)) continue;
      if (kind == FactorKind::Whole || factor_of(rule.result[d]) != cut) {
        return splits_operand(node);
      }
      result.cut = static_cast<int>(d);
      return true;
    }
    const bool sums = kind == FactorKind::Sum &&
                      (node.op->is_product || node.op->is_sum ||
                       (node.op->is_lookup && adds_up_lookups(node)) ||
                       node.op->exchange == TokenExchange::FromExperts);
    if (sums) {
      result.partial = true;
    } else if (node.op->is_slice && from.packed) {
      // One of two parts that are side by side, each of them sharded.
      result.cut = from.cut;
    } else {
      return splits_operand(node);
    }
    result.packed = false;
    return true;
  }

  // Returns whether the embedding's style masks the tokens of other devices.
  bool adds_up_lookups(const GraphNode& node) const {
    const HookLayout gives = hook_of(node, node.operands[0]).output_layout;
    return gives == HookLayout::Whole || gives == HookLayout::Tokens;
  }

  bool splits_operand(const GraphNode& node) {
    return fault(
        false, node.result, node.operands.front(),
        "each device holds only its shard, but the operation needs all of it");
  }

  const Graph& graph_;
  const HookedPlan& plan_;
  PerValue<HookedLayout> layouts_;
  PerNode<int> experts_;  // the region of experts that it is in; -1: none
  PerNode<int> norms_;    // likewise for norms whose modules have hooks
  std::map<int, std::pair<ModuleHook, ValueId>> norm_hooks_;  // hook and weight
  std::vector<NodeId> routers_;
  std::vector<PerValue<bool>> inside_;  // per container: made of its weights
  PerValue<ValueId> weight_source_;  // the parameter that a weight is made of
  PerValue<bool> sums_parts_;        // a hook adds up its partial gradients
  PerValue<bool> is_table_;          // a lookup reads it
  PerValue<bool> biased_;  // products whose bias is sharded as they are
  HookedWalk result_;
};

}  // namespace

HookedWalk walk_hooked(const Graph& graph, const HookedPlan& plan) {
  return HookedWalker(graph, plan).run();
}

}  // namespace shardplan
