// SPDX-License-Identifier: Apache-2.0
#include "spmd/partition.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "spmd/layout.h"
#include "spmd/propagate.h"
#include "spmd/shard_mapped.h"

namespace shardplan {
namespace {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Mesh& mesh, const WantedLayouts& wanted,
              const PartitionOptions& options)
      : graph_(graph),
        wanted_(wanted),
        options_(options),
        program_{.mesh = mesh, .graph = &graph, .weights = find_weights(graph)},
        reshards_(program_.mesh),
        suggested_(suggest(graph, mesh, wanted)),
        batch_dims_(find_batch_dims(graph, program_.weights)),
        versions_(graph.values.size()) {
    program_.layouts.resize(graph.values.size());
  }

  Program run() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].kind == Value::Kind::Result) continue;
      SHARDPLAN_CHECK(wanted_[v].has_value());
      Instruction load;
      load.kind = Instruction::Kind::Load;
      emit(load, static_cast<int>(v), *wanted_[v]);
      program_.layouts[v] = *wanted_[v];
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      place(static_cast<int>(n));
    }
    for (const int value : graph_.outputs) output(value);
    overlap_products(program_, options_.overlap);
    return std::move(program_);
  }

 private:
  const Shape& shape_of(int value) const {
    return graph_.values[static_cast<size_t>(value)].shape;
  }

  int emit(Instruction instruction, int value, const Layout& layout) {
    instruction.result = static_cast<int>(program_.registers.size());
    program_.registers.push_back(
        {value, layout, local_shape(program_.mesh, layout, shape_of(value))});
    versions_[static_cast<size_t>(value)].push_back(instruction.result);
    program_.instructions.push_back(std::move(instruction));
    return program_.instructions.back().result;
  }

  const Layout& layout_of_register(int number) const {
    return program_.registers[static_cast<size_t>(number)].layout;
  }

  std::vector<OperandChoice> operands_of(const GraphNode& node) const {
    const bool keeps_batch =
        node.op->exchange != TokenExchange::None ||
        std::any_of(node.operands.begin(), node.operands.end(), [&](int v) {
          return program_.weights[static_cast<size_t>(v)];
        });
    std::vector<OperandChoice> operands;
    for (const int value : node.operands) {
      const auto v = static_cast<size_t>(value);
      OperandChoice& operand = operands.emplace_back();
      operand.shape = &graph_.values[v].shape;
      operand.is_weight = program_.weights[v];
      operand.available.push_back(program_.layouts[v]);
      for (const int number : versions_[v]) {
        const Layout& layout = layout_of_register(number);
        if (!(layout == program_.layouts[v])) {
          operand.available.push_back(layout);
        }
      }
      operand.batch = batch_dims_[v];
      if (!keeps_batch) operand.batch.assign(operand.batch.size(), false);
    }
    return operands;
  }

  // Under shard_map there is no choice: all is said.
  NodeChoice mapped_choice(const GraphNode& node) const {
    NodeChoice choice{mapped_axes(program_.mesh, node),
                      {},
                      mapped_result(graph_, program_.mesh, node),
                      {}};
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const auto value = static_cast<size_t>(node.operands[i]);
      choice.operands.push_back(
          node.inner_operand == static_cast<int>(i)
              ? program_.layouts[value]
              : mapped_operand(graph_, program_.mesh, node, i));
    }
    return choice;
  }

  void place(int number) {
    const GraphNode& node = graph_.nodes[static_cast<size_t>(number)];
    const auto result = static_cast<size_t>(node.result);
    const bool mapped = node.shard_map.has_value();
    const NodeChoice choice =
        mapped ? mapped_choice(node)
               : choose(program_.mesh, node, operands_of(node),
                        graph_.values[result].shape, wanted_[result],
                        suggested_[result], reshards_);
    Instruction compute;
    compute.node = number;
    compute.factor_axes = choice.factors;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      compute.operands.push_back(materialize(node.operands[i],
                                             choice.operands[i], number,
                                             mapped ? nullptr : &choice));
    }
    emit(compute, node.result, choice.result);
    program_.layouts[result] = choice.result;
    if (wanted_[result]) {
      // Declared is declared: nobody reads the value as it was before.
      versions_[result] = {
          materialize(node.result, *wanted_[result], number, nullptr)};
      program_.layouts[result] = *wanted_[result];
    }
  }

  // The register that holds the value in that layout, made if need be: for the
  // choice of a node or, without one, because the layout is declared.
  int materialize(int value, const Layout& layout, int node,
                  const NodeChoice* choice) {
    const auto v = static_cast<size_t>(value);
    int from = -1;
    const Reshard* nearest = nullptr;
    for (const int number : versions_[v]) {
      const Layout& known = layout_of_register(number);
      if (!covers(known, layout)) continue;
      const Reshard& way = reshards_.find(shape_of(value), known, layout);
      if (nearest == nullptr || way.bytes < nearest->bytes) {
        nearest = &way;
        from = number;
      }
    }
    SHARDPLAN_CHECK(nearest != nullptr);
    const Layout held = layout_of_register(from);
    for (const ReshardStep& step : nearest->steps) {
      Instruction move;
      move.kind =
          step.slice ? Instruction::Kind::Slice : Instruction::Kind::Collective;
      move.node = node;
      move.operands = {from};
      move.collective = step.kind;
      move.axes = step.axes;
      move.dim = step.dim;
      move.grown = step.grown;
      move.reduction = layout_of_register(from).reduction;
      move.cause = cause_of(value, step, choice);
      move.rematerializes = rematerializes(value, held, step.after, layout);
      if (!step.slice && step.kind != CollectiveKind::Permute) {
        move.algorithm =
            &algorithm_for(step.kind, ranks_along(program_.mesh, step.axes),
                           options_.algorithm);
      } else if (!step.slice) {
        move.sources = permute_sources(program_.mesh, layout_of_register(from),
                                       step.after);
      }
      from = emit(move, value, step.after);
    }
    return from;
  }

  // Whether a step holds more of the value than either end of the way.
  bool rematerializes(int value, const Layout& from, const Layout& after,
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

  Cause cause_of(int value, const ReshardStep& step,
                 const NodeChoice* choice) const {
    if (step.kind == CollectiveKind::AllReduce ||
        step.kind == CollectiveKind::ReduceScatter) {
      return Cause::PartialSum;
    }
    if (choice == nullptr) return Cause::Declared;
    if (!program_.weights[static_cast<size_t>(value)]) return Cause::Implicit;
    // The axes that the weight gives up are those of the batch.
    const bool all = std::all_of(step.axes.begin(), step.axes.end(),
                                 [&](const AxisName& axis) {
                                   return contains(choice->batch_axes, axis);
                                 });
    return all ? Cause::WeightUse : Cause::Implicit;
  }

  void output(int value) {
    const auto v = static_cast<size_t>(value);
    Layout layout = program_.layouts[v];
    if (!layout.partial.empty()) {
      Layout settled = layout;
      settled.partial.clear();
      settled.reduction = Reduction::Sum;
      // Parts are summed where nothing needs them whole but the caller.
      Layout hinted{suggested_[v], {}, Reduction::Sum};
      layout = reshards_.find(shape_of(value), layout, hinted).bytes <
                       reshards_.find(shape_of(value), layout, settled).bytes
                   ? hinted
                   : settled;
    }
    program_.outputs.push_back(materialize(value, layout, -1, nullptr));
    program_.layouts[v] = layout;
  }

  const Graph& graph_;
  const WantedLayouts& wanted_;
  const PartitionOptions& options_;
  Program program_;
  ReshardCache reshards_;
  std::vector<PartitionSpec> suggested_;
  std::vector<std::vector<bool>> batch_dims_;
  std::vector<std::vector<int>> versions_;  // registers per value
};

}  // namespace

Program partition(const Graph& graph, const Mesh& mesh,
                  const WantedLayouts& wanted,
                  const PartitionOptions& options) {
  return Partitioner(graph, mesh, wanted, options).run();
}

namespace {

// Under shard_map, a device waits for all that its own code reads.
bool is_product(const Program& program, const Instruction& instruction) {
  if (instruction.kind != Instruction::Kind::Compute ||
      instruction.overlap != Overlap::Off) {
    return false;
  }
  const GraphNode& node =
      program.graph->nodes[static_cast<size_t>(instruction.node)];
  return node.op->is_product && !node.shard_map;
}

bool is_constraint(const Program& program, const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Compute &&
         program.graph->nodes[static_cast<size_t>(instruction.node)]
             .op->is_constraint;
}

bool is_gather(const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Collective &&
         instruction.collective == CollectiveKind::AllGather;
}

// How often every register is read, outputs included.
std::vector<int> count_reads(const Program& program) {
  std::vector<int> reads(program.registers.size());
  for (const Instruction& instruction : program.instructions) {
    for (const int number : instruction.operands) {
      ++reads[static_cast<size_t>(number)];
    }
  }
  for (const int number : program.outputs) ++reads[static_cast<size_t>(number)];
  return reads;
}

void join(Instruction& product, const Instruction& collective, Overlap overlap,
          int operand) {
  product.overlap = overlap;
  product.overlapped = operand;
  product.collective = collective.collective;
  product.axes = collective.axes;
  product.dim = collective.dim;
  product.cause = collective.cause;
  product.rematerializes = collective.rematerializes;
  product.algorithm = &overlap_algorithm(overlap);
}

}  // namespace

const Algorithm& overlap_algorithm(Overlap overlap) {
  const Algorithm* algorithm =
      find_algorithm(overlap == Overlap::Ring            ? "ring"
                     : overlap == Overlap::Bidirectional ? "bidirectional-ring"
                                                         : "split-ring");
  SHARDPLAN_CHECK(overlap != Overlap::Off && algorithm != nullptr);
  return *algorithm;
}

void overlap_products(Program& program, Overlap overlap) {
  if (overlap == Overlap::Off) return;
  const std::vector<int> reads = count_reads(program);
  std::vector<Instruction*> maker(program.registers.size());
  std::vector<bool> joined(program.instructions.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    Instruction& at = program.instructions[i];
    if (is_product(program, at)) {
      for (size_t o = 0; o < at.operands.size(); ++o) {
        // What is gathered may go through a constraint, which changes nothing.
        std::vector<Instruction*> way;
        for (auto number = static_cast<size_t>(at.operands[o]);
             reads[number] == 1 && maker[number] != nullptr;
             number = static_cast<size_t>(way.back()->operands[0])) {
          way.push_back(maker[number]);
          if (!is_constraint(program, *way.back())) break;
        }
        if (way.empty() || !is_gather(*way.back())) continue;
        join(at, *way.back(), overlap, static_cast<int>(o));
        at.operands[o] = way.back()->operands[0];
        for (const Instruction* gone : way) {
          joined[static_cast<size_t>(gone - program.instructions.data())] =
              true;
        }
        break;
      }
    } else if (at.kind == Instruction::Kind::Collective &&
               at.collective == CollectiveKind::ReduceScatter &&
               at.reduction == Reduction::Sum) {
      const auto number = static_cast<size_t>(at.operands[0]);
      Instruction* product = maker[number];
      if (reads[number] == 1 && product != nullptr &&
          is_product(program, *product)) {
        join(*product, at, overlap, -1);
        product->result = at.result;
        maker[static_cast<size_t>(at.result)] = product;
        joined[i] = true;
        continue;
      }
    }
    maker[static_cast<size_t>(at.result)] = &at;
  }
  std::vector<Instruction> kept;
  for (size_t i = 0; i < joined.size(); ++i) {
    if (!joined[i]) kept.push_back(std::move(program.instructions[i]));
  }
  program.instructions = std::move(kept);
}

}  // namespace shardplan
