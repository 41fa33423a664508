// SPDX-License-Identifier: Apache-2.0
// ProgramView (activations/saved_values.h): the bytes of registers, and their
// segments.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "activations/module_values.h"
#include "activations/saved_values.h"
#include "base/words.h"
#include "graph/op.h"

namespace shardplan {
namespace {

void find_segments(ProgramView& view) {
  view.segment_of.assign(view.program->instructions.size(), -1);
  std::map<int, int> known;  // segments, by their layer
  int last = -1;             // the segment of the previous instruction
  for (const InstructionId i : view.instructions()) {
    if (view.at(i).kind == Instruction::Kind::Load) continue;
    // An instruction belongs to the layer of the node that it serves.
    const int layer = view.at(i).node ? view.node(i).layer : -1;
    const auto found = known.find(layer);
    auto number = static_cast<int>(view.layer_of_segment.size());
    if (layer >= 0 && found != known.end()) {
      number = found->second;
    } else if (layer < 0 && last >= 0 && !view.is_layer(last)) {
      number = last;
    } else {
      known[layer] = number;
      view.layer_of_segment.push_back(layer);
    }
    view.segment_of[i] = number;
    last = number;
  }
}

// Returns which nodes are in a region of that kind.
PerNode<bool> nodes_in(const Graph& graph, Region::Kind kind) {
  PerNode<bool> nodes(graph.nodes.size());
  for (const Region& region : graph.regions) {
    if (region.kind != kind) continue;
    for (const NodeId n : region.nodes) nodes[n] = true;
  }
  return nodes;
}

// Returns, per value, whether torch.autocast has it in float32. Products give
// narrow values, softmax and other operations with weights give float32, and
// everything else has the wider type of what it reads. Rotations read tables in
// float32.
PerValue<bool> wide_values(const Graph& graph, bool gelu_is_several,
                           const PerNode<bool>& uncast) {
  const PerNode<bool> is_softmax = nodes_in(graph, Region::Kind::Softmax);
  const PerNode<bool> is_norm = nodes_in(graph, Region::Kind::Norm);
  PerValue<bool> wide(graph.values.size());
  for (const ValueId v : wide.ids()) {
    const Value& value = graph.values[v];
    wide[v] = value.kind != Value::Kind::Result && !value.is_integer();
  }
  for (const NodeId n : graph.nodes.ids()) {
    const GraphNode& node = graph.nodes[n];
    const bool reads_wide =
        std::ranges::any_of(node.operands, [&](ValueId v) { return wide[v]; });
    const InnerSteps steps = node.op->inner_steps(node.attributes);
    const bool makes_wide = is_softmax[n] || steps == InnerSteps::Angles ||
                            (steps == InnerSteps::Power && !is_norm[n]) ||
                            (steps == InnerSteps::Tanh && gelu_is_several);
    // One kernel multiplies and adds a bias.
    const bool is_linear =
        (node.op->is_product && (uncast.empty() || !uncast[n])) ||
        (node.op->second_sign == 1 &&
         graph.values[node.operands[1]].is_weight && !wide[node.operands[0]]);
    wide[node.result] = !graph.values[node.result].is_integer() && !is_linear &&
                        (reads_wide || makes_wide);
  }
  return wide;
}

// Returns the bytes of one element of a value.
int64_t unit_of(const SegmentOptions& options, NumberType type, bool wide,
                SavingMode mode) {
  const bool eager = mode == SavingMode::Eager;
  if (type == NumberType::Integer) return eager ? 2 * kFloatBytes : kFloatBytes;
  if (wide) return std::max(options.element_bytes, kFloatBytes);
  if (eager && type == NumberType::Internal && !options.norms_round_first) {
    return std::max(options.element_bytes, kFloatBytes);
  }
  // A value that a product saves in 8 bits need not exist in another form.
  const bool quantised = options.fp8 != nullptr && options.fp8->saves_inputs;
  if (quantised && mode == SavingMode::Least) return 1;
  return type == NumberType::Adapter && mode != SavingMode::Least
             ? std::max(options.element_bytes, options.adapter_bytes)
             : options.element_bytes;
}

// How much of a value exists at its experts. The graph has as many slots per
// expert as there are tokens (graph/ops/experts.cc), which no implementation
// allocates. Tokens fill `part` of `of` slots, which is what every expert gets
// if all get the same number, times the factor. Each of `experts` has a part
// that no other needs: of values between sending tokens and combining answers,
// and of the weights there.
struct AtExperts {
  int64_t part = 1;
  int64_t of = 1;
  int64_t experts = 1;
};

PerValue<AtExperts> values_at_experts(const Graph& graph,
                                      const SegmentOptions& options) {
  PerValue<AtExperts> values(graph.values.size());
  for (const Region& region : graph.regions) {
    if (region.kind != Region::Kind::Experts) continue;
    AtExperts at;
    const double wanted =
        std::ceil(options.expert_factor * static_cast<double>(region.tokens) *
                  static_cast<double>(region.choices) /
                  static_cast<double>(region.experts));
    if (region.places > 0 && wanted < static_cast<double>(region.places)) {
      at.part = static_cast<int64_t>(wanted);
      at.of = region.places;
    }
    for (const NodeId n : region.nodes) {
      const GraphNode& node = graph.nodes[n];
      if (node.op->exchange == TokenExchange::FromExperts) {
        values[node.operands[0]].experts = 1;
        continue;
      }
      values[node.result] = at;
      if (node.op->exchange == TokenExchange::ToExperts) {
        if (options.experts_one_by_one) at.experts = region.experts;
        continue;
      }
      for (const ValueId v : node.operands) {
        if (graph.values[v].is_weight) values[v].experts = at.experts;
      }
    }
  }
  return values;
}

void describe_registers(ProgramView& view, const SegmentOptions& options) {
  const Graph& graph = *view.program->graph;
  const PerValue<AtExperts> at_experts = values_at_experts(graph, options);
  if (options.autocast) {
    if (options.autocast_skips_experts) {
      view.uncast = nodes_in(graph, Region::Kind::Experts);
    }
    view.wide = wide_values(graph, options.gelu_steps > 0, view.uncast);
  }
  view.registers.resize(view.program->registers.size());
  for (const InstructionId i : view.instructions()) {
    const Instruction& made = view.at(i);
    HeldRegister& reg = view.registers[made.result];
    const ValueId v = view.program->registers[made.result].value;
    reg.value = v;
    reg.maker = i;
    reg.root = made.result;
    reg.segment = std::max(view.segment(i), 0);
    reg.loaded = made.kind == Instruction::Kind::Load;
    reg.weight = graph.values[v].is_weight;
    reg.output = contains(graph.outputs, v) && !reg.weight &&
                 graph.values[v].kind == Value::Kind::Result;
    const Int128 elements = local_elements(view, made.result);
    const AtExperts& at = at_experts[v];
    reg.filled = static_cast<double>(at.part) / static_cast<double>(at.of);
    for (const SavingMode mode : kFigures) {
      const int64_t unit =
          unit_of(options, graph.values[v].type, view.is_wide(v), mode);
      Int128& bytes = nth(reg.bytes, mode);
      bytes = (elements * unit * at.part + at.of - 1) / at.of;
      nth(reg.moment, mode) = (bytes + at.experts - 1) / at.experts;
    }
    if (view.computes(i) && !made.operands.empty() &&
        view.op(i).recompute_cost == RecomputeCost::View) {
      reg.root = view.reg(made.operands[0]).root;
    }
    for (const RegisterId operand : made.operands) {
      view.registers[view.reg(operand).root].last_read = i;
    }
  }
}

// Counts what logits are before their bias is added as logits as well, because
// the sum takes its place.
void describe_outputs(ProgramView& view) {
  for (const RegisterId output : view.program->outputs) {
    RegisterId number = output;
    while (view.reg(number).output) {
      const InstructionId maker = view.reg(number).maker;
      if (view.at(maker).operands.empty()) break;
      const bool adds_bias = view.computes(maker) &&
                             view.op(maker).second_sign == 1 &&
                             view.reg(view.at(maker).operands[1]).weight;
      if (view.computes(maker) && !adds_bias &&
          view.op(maker).recompute_cost != RecomputeCost::View) {
        break;
      }
      number = view.at(maker).operands[0];
      HeldRegister& before = view.registers[number];
      if (before.weight || before.loaded ||
          local_elements(view, number) != local_elements(view, output)) {
        break;
      }
      before.output = true;
    }
  }
}

// If anything is frozen, gradients flow only into what is trained and what
// depends on it.
void find_gradients(ProgramView& view) {
  const Graph& graph = *view.program->graph;
  view.any_frozen = std::ranges::any_of(graph.values, &Value::frozen);
  PerValue<bool>& flows = view.flows;
  flows.assign(graph.values.size(), !view.any_frozen);
  if (!view.any_frozen) return;
  for (const ValueId v : flows.ids()) {
    const Value& value = graph.values[v];
    flows[v] = value.kind == Value::Kind::Parameter && !value.frozen;
  }
  for (const GraphNode& node : graph.nodes) {
    const ValueId result = node.result;
    flows[result] =
        !graph.values[result].is_integer() &&
        std::ranges::any_of(node.operands, [&](ValueId v) { return flows[v]; });
  }
}

}  // namespace

bool ProgramView::reads_cast(InstructionId i, RegisterId operand) const {
  const bool reads_wide = is_wide(reg(operand).value);
  if (op(i).is_product) return reads_wide && !skips_cast(i);
  return !reads_wide && is_wide(reg(at(i).result).value) &&
         op(i).inner_steps(node(i).attributes) == InnerSteps::Power;
}

ProgramView view_of(const Program& program, const SegmentOptions& options) {
  ProgramView view;
  view.program = &program;
  find_gradients(view);
  find_segments(view);
  describe_registers(view, options);
  describe_outputs(view);
  return view;
}

std::vector<std::string_view> absent_modules(const ProgramView& view,
                                             const RematPolicy& policy) {
  const ModuleValues values(view, policy);
  std::vector<std::string_view> absent;
  for (const RecomputedModule* module : policy.modules) {
    const auto has_row = [&](const RecomputedModule* row) {
      return row->name == module->name &&
             std::ranges::any_of(view.registers, [&](const HeldRegister& of) {
               return values.is_of_layer(of) &&
                      values.is_of(*row, of, of.value);
             });
    };
    if (!contains(absent, module->name) &&
        std::ranges::none_of(policy.modules, has_row)) {
      absent.push_back(module->name);
    }
  }
  return absent;
}

Int128 local_elements(const ProgramView& view, RegisterId number) {
  const Shape& shape = view.program->registers[number].local_shape;
  return static_cast<Int128>(element_count(shape).value_or(0));
}

}  // namespace shardplan
