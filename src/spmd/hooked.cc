// SPDX-License-Identifier: Apache-2.0
#include "spmd/hooked.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

// How a value lies along the axis.
struct Held {
  int cut = -1;          // the dimension; -1: none
  bool packed = false;   // two parts of it, each of which is cut
  bool partial = false;  // parts of a sum

  bool is_whole() const { return cut < 0 && !partial; }
};

class HookedWalker {
 public:
  HookedWalker(const Graph& graph, const HookedPlan& plan)
      : graph_(graph),
        plan_(plan),
        held_(graph.values.size()),
        is_table_(graph.values.size()),
        biased_(graph.values.size()) {}

  HookedWalk run() {
    for (const ValueId v : graph_.values.ids()) {
      if (graph_.values[v].kind != Value::Kind::Parameter) continue;
      held_[v] = {plan_.cut[v], plan_.packed[v], false};
    }
    find_tables_and_biases();
    for (const NodeId n : graph_.nodes.ids()) {
      if (!visit(graph_.nodes[n])) return std::move(result_);
    }
    for (const ValueId v : graph_.outputs) {
      if (held_[v].is_whole()) continue;
      fault(false, v, {},
            held_[v].partial ? "each device holds only a partial sum"
                             : "each device holds only its shard");
      break;
    }
    return std::move(result_);
  }

 private:
  const Value& value(ValueId v) const { return graph_.values[v]; }

  bool fault(bool shapes, ValueId v, ValueId operand, std::string why) {
    result_.fault = HookedFault{shapes, v, operand, std::move(why)};
    return false;
  }
  bool unknown(std::string why) {
    result_.unknown = std::move(why);
    return false;
  }

  // The weight that a module's product or lookup reads.
  std::optional<size_t> weight_of(const GraphNode& node) const {
    if (!node.op->is_product && !node.op->is_lookup) return std::nullopt;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      if (value(node.operands[o]).kind == Value::Kind::Parameter) return o;
    }
    return std::nullopt;
  }
  std::optional<size_t> bias_of(const GraphNode& node) const {
    if (node.op->second_sign == 0) return std::nullopt;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const ValueId v = node.operands[o];
      if (value(v).kind == Value::Kind::Parameter &&
          plan_.hook[v] == ModuleHook::Gather) {
        return o;
      }
    }
    return std::nullopt;
  }

  void find_tables_and_biases() {
    for (const NodeId n : graph_.nodes.ids()) {
      const GraphNode& node = graph_.nodes[n];
      if (node.op->is_lookup) is_table_[node.operands[0]] = true;
      if (const auto bias = bias_of(node)) {
        biased_[node.operands[1 - *bias]] = true;
      }
    }
  }

  ModuleHook hook_of(const GraphNode& node, ValueId weight) const {
    const bool is_head = is_table_[weight] && !node.op->is_lookup;
    return is_head ? plan_.tied_head : plan_.hook[weight];
  }

  bool visit(const GraphNode& node) {
    if (node.shard_map) return unknown("the graph says what devices compute");
    std::vector<Held> operands;
    for (const ValueId v : node.operands) operands.push_back(held_[v]);
    ModuleHook hook = ModuleHook::None;
    if (const auto w = weight_of(node)) {
      hook = hook_of(node, node.operands[*w]);
      if (hook == ModuleHook::Unknown) {
        return unknown("what the hooks of the module of " +
                       in_backticks(value(node.operands[*w]).parameter) +
                       " do is not known");
      }
      if (hook == ModuleHook::SplitThenSum && !split(node, *w, operands)) {
        return false;
      }
    }
    Held made;
    if (!compute(node, operands, hook, made)) return false;
    const ValueId v = node.result;
    if (bias_of(node)) hook = ModuleHook::Gather;
    switch (hook) {
      case ModuleHook::Sum:
      case ModuleHook::SplitThenSum:
        if (!made.partial) {
          return fault(false, v, {},
                       "its hook all-reduces values that are not partial sums");
        }
        made = {};
        break;
      case ModuleHook::Gather:
        if (biased_[v]) break;  // behind the bias
        if (made.partial || made.cut + 1 != std::ssize(value(v).shape)) {
          return fault(false, v, {},
                       "its hook all-gathers the last dimension, which is not "
                       "sharded");
        }
        made = {};
        break;
      default:
        break;
    }
    held_[v] = made;
    return true;
  }

  // The own part of what a module reads.
  bool split(const GraphNode& node, size_t weight,
             std::vector<Held>& operands) {
    for (size_t o = 0; o < operands.size(); ++o) {
      if (o == weight) continue;
      const Shape& shape = value(node.operands[o]).shape;
      if (!operands[o].is_whole() || shape.empty() ||
          shape.back() % plan_.ranks != 0) {
        return fault(true, node.result, node.operands[o],
                     "its hook slices an input that is already sharded");
      }
      operands[o].cut = static_cast<int>(shape.size()) - 1;
    }
    return true;
  }

  // The major factor of a dimension, which sharding splits; -1: it has none.
  static int factor_of(const DimFactors& dim) {
    return dim.empty() ? -1 : dim.front();
  }

  bool compute(const GraphNode& node, const std::vector<Held>& operands,
               ModuleHook hook, Held& made) {
    if (std::ranges::all_of(operands, &Held::is_whole)) return true;
    const ShardingRule& rule = node.rule;
    int cut = -1;  // the factor
    size_t from = 0;
    for (size_t o = 0; o < operands.size(); ++o) {
      if (operands[o].cut < 0) continue;
      const int factor =
          factor_of(rule.operands[o][static_cast<size_t>(operands[o].cut)]);
      const bool divides =
          factor >= 0 &&
          rule.factors[static_cast<size_t>(factor)].size % plan_.ranks == 0;
      if (!divides) {
        return fault(true, node.result, node.operands[o],
                     "its shards do not hold whole heads, or not pieces that "
                     "the operation can take alone");
      }
      if (cut >= 0 && cut != factor) {
        return fault(true, node.result, node.operands[o],
                     "it is sharded along a different dimension than " +
                         in_backticks(value(node.operands[from]).name));
      }
      cut = factor;
      from = o;
      made.packed = operands[o].packed;
    }
    if (!adds_parts(node, operands, made)) return false;
    if (cut < 0) return true;
    if (made.partial) {
      return fault(false, node.result, {},
                   "it is a partial sum and sharded as well");
    }
    for (size_t o = 0; o < operands.size(); ++o) {
      const auto& dims = rule.operands[o];
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!contains(dims[d], cut)) continue;
        const bool is_cut =
            operands[o].cut == static_cast<int>(d) && factor_of(dims[d]) == cut;
        if (is_cut) continue;
        return fault(true, node.result, node.operands[o],
                     "it is replicated, and " +
                         in_backticks(value(node.operands[from]).name) +
                         " is sharded");
      }
    }
    return place(node, cut, operands[from], hook, made);
  }

  // Parts of sums: only what is linear in them leaves parts of a sum.
  bool adds_parts(const GraphNode& node, const std::vector<Held>& operands,
                  Held& made) {
    const auto parts = std::ranges::count_if(operands, &Held::partial);
    if (parts == 0) return true;
    made.partial = true;
    const bool all = parts == std::ssize(operands);
    if (all && (node.op->linearity == Linearity::Additive ||
                (parts == 1 && node.op->linearity != Linearity::None))) {
      return true;
    }
    const auto one = std::ranges::find_if(operands, &Held::partial);
    const auto o = static_cast<size_t>(one - operands.begin());
    if (parts == 1 && node.op->linearity == Linearity::Multilinear &&
        is_linear_in(*node.op, static_cast<int>(o))) {
      return true;
    }
    return fault(false, node.result, node.operands[o],
                 "each device holds only a partial sum of it");
  }

  // What the cut factor makes of the result.
  bool place(const GraphNode& node, int cut, const Held& from, ModuleHook hook,
             Held& made) {
    const ShardingRule& rule = node.rule;
    const FactorKind kind = rule.factors[static_cast<size_t>(cut)].kind;
    for (size_t d = 0; d < rule.result.size(); ++d) {
      if (!contains(rule.result[d], cut)) continue;
      if (kind == FactorKind::Whole || factor_of(rule.result[d]) != cut) {
        return cut_apart(node);
      }
      made.cut = static_cast<int>(d);
      return true;
    }
    const bool sums = kind == FactorKind::Sum &&
                      (node.op->is_product || node.op->is_sum ||
                       (node.op->is_lookup && (hook == ModuleHook::Sum)));
    if (!sums) return halved(node, from, made);
    made.partial = true;
    made.packed = false;
    return true;
  }

  // A half of two that lie side by side and are cut each.
  bool halved(const GraphNode& node, const Held& from, Held& made) {
    if (node.op->is_slice && from.packed) {
      made.cut = from.cut;
      made.packed = false;
      return true;
    }
    return cut_apart(node);
  }
  bool cut_apart(const GraphNode& node) {
    return fault(false, node.result, node.operands.front(),
                 "each device holds only its shard, and the operation needs "
                 "all of it");
  }

  const Graph& graph_;
  const HookedPlan& plan_;
  PerValue<Held> held_;
  PerValue<bool> is_table_;  // looked up
  PerValue<bool> biased_;    // products that a gathered bias is added to
  HookedWalk result_;
};

}  // namespace

HookedWalk walk_hooked(const Graph& graph, const HookedPlan& plan) {
  return HookedWalker(graph, plan).run();
}

}  // namespace shardplan
