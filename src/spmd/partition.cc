// SPDX-License-Identifier: Apache-2.0
// Writes the instructions of a program, and joins products with collectives.
#include "spmd/partition.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/words.h"
#include "spmd/layout.h"
#include "spmd/propagate.h"
#include "spmd/shard_mapped.h"

namespace shardplan {
namespace {

// Collective matmuls: products interleaved with the collective that feeds or
// drains them, one chunk at a time (Wang et al., "Overlap Communication with
// Dependent Computation via Decomposition", ASPLOS 2023; xlstm's TPAsyncDense).

// Returns whether an instruction is a product that may be joined. Under
// shard_map, a device waits for everything that its own code reads.
bool is_product(const Program& program, const Instruction& instruction) {
  if (instruction.kind != Instruction::Kind::Compute ||
      instruction.overlap != Overlap::Off) {
    return false;
  }
  const GraphNode& node = program.graph->nodes[instruction.node];
  return node.op->is_product && !node.shard_map;
}

bool is_constraint(const Program& program, const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Compute &&
         program.graph->nodes[instruction.node].op->is_constraint;
}

// Returns whether an instruction gathers parts without padding. Others cannot
// be joined with a product: the padding would have to be removed between the
// steps.
bool is_even_gather(const Program& program, const Instruction& instruction) {
  if (instruction.kind != Instruction::Kind::Collective ||
      instruction.collective != CollectiveKind::AllGather) {
    return false;
  }
  const auto rows = [&](RegisterId number) {
    return nth(program.registers[number].local_shape, instruction.dim);
  };
  return rows(instruction.operands[0]) *
             shard_count(program.mesh, instruction.axes) ==
         rows(instruction.result);
}

// Counts how often every register is read, outputs included.
PerRegister<int> count_reads(const Program& program) {
  PerRegister<int> reads(program.registers.size());
  for (const Instruction& instruction : program.instructions) {
    for (const RegisterId number : instruction.operands) ++reads[number];
  }
  for (const RegisterId number : program.outputs) ++reads[number];
  return reads;
}

void join(Instruction& product, const Instruction& collective, Overlap overlap,
          std::optional<size_t> operand) {
  product.overlap = overlap;
  product.overlapped = operand;
  product.collective = collective.collective;
  product.axes = collective.axes;
  product.dim = collective.dim;
  product.cause = collective.cause;
  product.rematerializes = collective.rematerializes;
  product.algorithm = &overlap_algorithm(overlap);
}

// Joins an einsum with an all-gather that only it reads, or with a
// reduce-scatter of sums that only it feeds. An einsum is joined with at most
// one of them, its all-gather first. With Overlap::Off, changes nothing.
void overlap_products(Program& program, Overlap overlap) {
  if (overlap == Overlap::Off) return;
  const PerRegister<int> reads = count_reads(program);
  PerRegister<Instruction*> maker(program.registers.size());
  PerInstruction<bool> joined(program.instructions.size());
  for (const InstructionId i : program.instructions.ids()) {
    Instruction& at = program.instructions[i];
    if (is_product(program, at)) {
      for (size_t o = 0; o < at.operands.size(); ++o) {
        // The gathered value may pass through constraints, which change
        // nothing.
        std::vector<Instruction*> path;
        for (RegisterId number = at.operands[o];
             reads[number] == 1 && maker[number] != nullptr;
             number = path.back()->operands[0]) {
          path.push_back(maker[number]);
          if (!is_constraint(program, *path.back())) break;
        }
        if (path.empty() || !is_even_gather(program, *path.back())) continue;
        join(at, *path.back(), overlap, o);
        at.operands[o] = path.back()->operands[0];
        for (const Instruction* step : path) {
          joined[program.instructions.id_of(*step)] = true;
        }
        break;
      }
    } else if (at.kind == Instruction::Kind::Collective &&
               at.collective == CollectiveKind::ReduceScatter &&
               at.reduction == Reduction::Sum) {
      const RegisterId number = at.operands[0];
      Instruction* product = maker[number];
      if (reads[number] == 1 && product != nullptr &&
          is_product(program, *product)) {
        join(*product, at, overlap, std::nullopt);
        product->result = at.result;
        maker[at.result] = product;
        joined[i] = true;
        continue;
      }
    }
    maker[at.result] = &at;
  }
  PerInstruction<Instruction> kept;
  for (const InstructionId i : joined.ids()) {
    if (!joined[i]) kept.push_back(std::move(program.instructions[i]));
  }
  program.instructions = std::move(kept);
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Mesh& mesh, const WantedLayouts& wanted,
              const PartitionOptions& options)
      : graph_(graph),
        wanted_(wanted),
        options_(options),
        program_{.mesh = mesh, .graph = &graph},
        reshards_(program_.mesh),
        suggested_(suggest(graph, mesh, wanted)),
        batch_dims_(find_batch_dims(graph)),
        versions_(graph.values.size()),
        is_uneven_(graph.values.size()) {
    program_.layouts.resize(graph.values.size());
  }

  Program run() {
    for (const ValueId v : graph_.values.ids()) {
      if (graph_.values[v].kind == Value::Kind::Result) continue;
      SHARDPLAN_CHECK(wanted_[v].has_value());
      emit({.kind = Instruction::Kind::Load}, v, *wanted_[v]);
      program_.layouts[v] = *wanted_[v];
      is_uneven_[v] = !is_even(program_.mesh, *wanted_[v], shape_of(v));
    }
    for (const NodeId n : graph_.nodes.ids()) place(n);
    for (const ValueId value : graph_.outputs) output(value);
    overlap_products(program_, options_.overlap);
    return std::move(program_);
  }

 private:
  const Shape& shape_of(ValueId value) const {
    return graph_.values[value].shape;
  }

  RegisterId emit(Instruction instruction, ValueId value,
                  const Layout& layout) {
    instruction.result = program_.registers.push_back(
        {value, layout, local_shape(program_.mesh, layout, shape_of(value))});
    versions_[value].push_back(instruction.result);
    program_.instructions.push_back(std::move(instruction));
    return program_.instructions.back().result;
  }

  const Layout& layout_of_register(RegisterId number) const {
    return program_.registers[number].layout;
  }

  // Returns the layout in which a value can be read: a weight whose shards
  // differ in size is gathered first.
  Layout readable(ValueId value) const {
    if (!is_uneven_[value]) return program_.layouts[value];
    return without_uneven(program_.mesh, program_.layouts[value],
                          shape_of(value));
  }

  bool can_read(const Layout& layout, ValueId value) const {
    return !is_uneven_[value] ||
           is_even(program_.mesh, layout, shape_of(value));
  }

  // Gathers a weight whose shards differ in size, once, for a node.
  void make_readable(ValueId value, NodeId node) {
    if (!is_uneven_[value] || versions_[value].size() > 1) return;
    Layout layout = program_.layouts[value];
    const Layout even = readable(value);
    for (size_t dim = 0; dim < even.spec.dims.size(); ++dim) {
      AxisNames& axes = layout.spec.dims[dim];
      const AxisNames& kept = even.spec.dims[dim];
      if (axes == kept) continue;
      Instruction gather{.kind = Instruction::Kind::Collective,
                         .operands = {versions_[value].back()},
                         .node = node,
                         .axes = {axes.begin() + std::ssize(kept), axes.end()},
                         .dim = static_cast<int>(dim),
                         .cause = Cause::WeightUse};
      set_algorithm(gather);
      axes = kept;
      emit(std::move(gather), value, layout);
    }
  }

  void set_algorithm(Instruction& collective) const {
    collective.algorithm = &algorithm_for(
        collective.collective, ranks_along(program_.mesh, collective.axes),
        options_.algorithm);
  }

  std::vector<OperandChoice> operands_of(const GraphNode& node) const {
    const bool keeps_batch = node.op->exchange != TokenExchange::None ||
                             std::ranges::any_of(node.operands, [&](ValueId v) {
                               return graph_.values[v].is_weight;
                             });
    std::vector<OperandChoice> operands;
    for (const ValueId v : node.operands) {
      operands.push_back({&shape_of(v),
                          {readable(v)},
                          batch_dims_[v],
                          graph_.values[v].is_weight});
      OperandChoice& operand = operands.back();
      for (const RegisterId number : versions_[v]) {
        const Layout& layout = layout_of_register(number);
        if (layout != operand.available[0] && can_read(layout, v)) {
          operand.available.push_back(layout);
        }
      }
      if (!keeps_batch) operand.batch.assign(operand.batch.size(), false);
    }
    return operands;
  }

  // Returns the choice of a node under shard_map, where everything is given.
  NodeChoice mapped_choice(const GraphNode& node) const {
    NodeChoice choice{mapped_axes(program_.mesh, node),
                      {},
                      mapped_result(graph_, program_.mesh, node),
                      {}};
    for (size_t i = 0; i < node.operands.size(); ++i) {
      choice.operands.push_back(
          node.inner_operand == i
              ? program_.layouts[node.operands[i]]
              : mapped_operand(graph_, program_.mesh, node, i));
    }
    return choice;
  }

  void place(NodeId number) {
    const GraphNode& node = graph_.nodes[number];
    const ValueId result = node.result;
    const bool mapped = node.shard_map.has_value();
    const NodeChoice choice =
        mapped ? mapped_choice(node)
               : choose(program_.mesh, node, operands_of(node),
                        graph_.values[result].shape, wanted_[result],
                        suggested_[result], reshards_);
    Instruction compute{.node = number, .factor_axes = choice.factors};
    for (size_t i = 0; i < node.operands.size(); ++i) {
      compute.operands.push_back(materialize(node.operands[i],
                                             choice.operands[i], number,
                                             mapped ? nullptr : &choice));
    }
    emit(std::move(compute), result, choice.result);
    program_.layouts[result] = choice.result;
    if (wanted_[result]) {
      // A declared layout is final: nothing reads the value as it was before.
      versions_[result] = {
          materialize(result, *wanted_[result], number, nullptr)};
      program_.layouts[result] = *wanted_[result];
    }
  }

  // Returns the register that holds the value in that layout, and reshards if
  // there is none. The reason is `choice`, a node's choice, or if that is null,
  // that the layout is declared.
  RegisterId materialize(ValueId value, const Layout& layout, NodeId node,
                         const NodeChoice* choice) {
    make_readable(value, node);
    RegisterId from;
    const Reshard* nearest = nullptr;
    for (const RegisterId number : versions_[value]) {
      const Layout& known = layout_of_register(number);
      if (!covers(known, layout) || !can_read(known, value)) continue;
      const Reshard& reshard = reshards_.find(shape_of(value), known, layout);
      if (nearest == nullptr || reshard.bytes < nearest->bytes) {
        nearest = &reshard;
        from = number;
      }
    }
    SHARDPLAN_CHECK(nearest != nullptr);
    const Layout held = layout_of_register(from);
    for (const ReshardStep& step : nearest->steps) {
      Instruction move{
          .kind = step.slice ? Instruction::Kind::Slice
                             : Instruction::Kind::Collective,
          .operands = {from},
          .node = node,
          .collective = step.kind,
          .axes = step.axes,
          .dim = step.dim,
          .grown = step.grown,
          .reduction = layout_of_register(from).reduction,
          .cause = exchanges_tokens(value, step, node)
                       ? Cause::Experts
                       : cause_of(value, step, choice),
          .rematerializes = rematerializes(value, held, step.after, layout)};
      if (!step.slice && step.kind != CollectiveKind::Permute) {
        set_algorithm(move);
      }
      from = emit(std::move(move), value, step.after);
    }
    return from;
  }

  // Returns whether a step holds more of the value than either end of the
  // conversion.
  bool rematerializes(ValueId value, const Layout& from, const Layout& after,
                      const Layout& to) const {
    const auto held = [&](const Layout& layout) {
      int64_t elements = 1;
      for (const int64_t size :
           local_shape(program_.mesh, layout, shape_of(value))) {
        elements *= size;
      }
      return elements;
    };
    return held(after) > std::max(held(from), held(to));
  }

  // Returns whether a step exchanges tokens with the devices that have their
  // experts. No one asked for any other collective on them.
  bool exchanges_tokens(ValueId value, const ReshardStep& step,
                        NodeId reader) const {
    if (step.slice || step.kind != CollectiveKind::AllToAll) return false;
    const NodeId maker = graph_.values[value].node;
    if (maker && graph_.nodes[maker].op->exchange == TokenExchange::ToExperts) {
      return true;
    }
    return reader && graph_.nodes[reader].operands[0] == value &&
           graph_.nodes[reader].op->exchange == TokenExchange::FromExperts;
  }

  // Returns the cause of a collective that brings disagreeing operands
  // together.
  Cause unnamed() const {
    return options_.hook_layouts ? Cause::Declared : Cause::Implicit;
  }

  Cause cause_of(ValueId value, const ReshardStep& step,
                 const NodeChoice* choice) const {
    if (step.kind == CollectiveKind::AllReduce ||
        step.kind == CollectiveKind::ReduceScatter) {
      return Cause::PartialSum;
    }
    if (choice == nullptr) return Cause::Declared;
    if (!graph_.values[value].is_weight) return unnamed();
    // A weight is gathered for use if the axes that it gives up are the
    // batch's.
    return contains_all(choice->batch_axes, step.axes) ? Cause::WeightUse
                                                       : unnamed();
  }

  void output(ValueId v) {
    Layout layout = readable(v);
    if (!layout.partial.empty()) {
      const Layout summed = layout.without_partial_sums();
      // Only the caller needs this sum whole: scatter it if that is cheaper.
      Layout hinted{suggested_[v], {}, Reduction::Sum};
      layout = reshards_.find(shape_of(v), layout, hinted).bytes <
                       reshards_.find(shape_of(v), layout, summed).bytes
                   ? hinted
                   : summed;
    }
    program_.outputs.push_back(materialize(v, layout, {}, nullptr));
    program_.layouts[v] = layout;
  }

  const Graph& graph_;
  const WantedLayouts& wanted_;
  const PartitionOptions& options_;
  Program program_;
  ReshardCache reshards_;
  PerValue<PartitionSpec> suggested_;
  PerValue<std::vector<bool>> batch_dims_;
  PerValue<std::vector<RegisterId>> versions_;
  PerValue<bool> is_uneven_;  // shards differ in size as they are loaded
};

}  // namespace

Program partition(const Graph& graph, const Mesh& mesh,
                  const WantedLayouts& wanted,
                  const PartitionOptions& options) {
  return Partitioner(graph, mesh, wanted, options).run();
}

const Algorithm& overlap_algorithm(Overlap overlap) {
  const Algorithm* algorithm =
      find_algorithm(overlap == Overlap::Ring            ? "ring"
                     : overlap == Overlap::Bidirectional ? "bidirectional-ring"
                                                         : "split-ring");
  SHARDPLAN_CHECK(overlap != Overlap::Off && algorithm != nullptr);
  return *algorithm;
}

}  // namespace shardplan
