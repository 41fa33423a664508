// SPDX-License-Identifier: Apache-2.0
#include "spmd/overlap.h"

#include <vector>

#include "base/check.h"

namespace shardplan {
namespace {

// Under shard_map, a device waits for all that its own code reads.
bool is_product(const Program& program, const Instruction& instruction) {
  if (instruction.kind != Instruction::Kind::Compute ||
      instruction.overlap != Overlap::Off) {
    return false;
  }
  const GraphNode& node =
      program.graph->nodes[static_cast<size_t>(instruction.node)];
  return node.op->name == "einsum" && !node.shard_map;
}

bool is_constraint(const Program& program, const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Compute &&
         program.graph->nodes[static_cast<size_t>(instruction.node)].op->name ==
             "constraint";
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
