// SPDX-License-Identifier: Apache-2.0
#include "sim/lifetimes.h"

#include <algorithm>

namespace shardplan {
namespace {

// A weight that is used twice in a layer is read once.
constexpr int kSoon = 4;

void set_phases(const Program& program, Lifetimes& lives) {
  const auto nodes = static_cast<int>(program.graph->nodes.size());
  lives.phases = nodes + 1;
  lives.phase.assign(program.instructions.size(), nodes);
  int next = nodes;
  for (size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& at = program.instructions[i];
    if (at.kind == Instruction::Kind::Compute) next = std::min(next, at.node);
    lives.phase[i] = at.kind == Instruction::Kind::Load ? -1 : next;
  }
}

bool keeps_numbers(const Instruction& at) {
  switch (at.kind) {
    case Instruction::Kind::Load:
    case Instruction::Kind::Slice:
      return true;
    case Instruction::Kind::Collective:
      return at.collective != CollectiveKind::AllReduce &&
             at.collective != CollectiveKind::ReduceScatter;
    case Instruction::Kind::Compute:
      break;
  }
  return false;
}

void sort_out(std::vector<std::vector<int>>& all) {
  for (std::vector<int>& phases : all) {
    std::sort(phases.begin(), phases.end());
    phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  }
}

}  // namespace

Lifetimes lifetimes_of(const Program& program) {
  Lifetimes lives;
  set_phases(program, lives);
  lives.maker.assign(program.registers.size(), -1);
  lives.rematerialised.assign(program.registers.size(), false);
  lives.reads.resize(program.registers.size());
  lives.last_read.assign(program.registers.size(), 0);
  lives.needed.resize(program.graph->values.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& at = program.instructions[i];
    const auto result = static_cast<size_t>(at.result);
    lives.maker[result] = static_cast<int>(i);
    lives.rematerialised[result] =
        keeps_numbers(at) &&
        std::all_of(at.operands.begin(), at.operands.end(), [&](int number) {
          return lives.rematerialised[static_cast<size_t>(number)];
        });
    if (at.kind != Instruction::Kind::Load) {
      const auto value = static_cast<size_t>(program.registers[result].value);
      lives.needed[value].push_back(lives.phase[i]);
    }
    for (const int number : at.operands) {
      const auto operand = static_cast<size_t>(number);
      const auto value = static_cast<size_t>(program.registers[operand].value);
      lives.reads[operand].push_back(lives.phase[i]);
      lives.last_read[operand] = i;
      lives.needed[value].push_back(lives.phase[i]);
    }
  }
  const int last = lives.phases - 1;
  for (const int number : program.outputs) {
    lives.reads[static_cast<size_t>(number)].push_back(last);
    lives.last_read[static_cast<size_t>(number)] = program.instructions.size();
  }
  for (size_t n = 0; n < program.graph->nodes.size(); ++n) {
    for (const int operand : program.graph->nodes[n].operands) {
      lives.needed[static_cast<size_t>(operand)].push_back(static_cast<int>(n));
    }
  }
  for (const int value : program.graph->outputs) {
    lives.needed[static_cast<size_t>(value)].push_back(last);
  }
  sort_out(lives.reads);
  sort_out(lives.needed);
  return lives;
}

bool is_needed_soon(const std::vector<int>& phases, int after) {
  const auto next = std::upper_bound(phases.begin(), phases.end(), after);
  return next != phases.end() && *next <= after + kSoon;
}

bool is_needed_later(const std::vector<int>& phases, int after) {
  return !phases.empty() && phases.back() > after;
}

}  // namespace shardplan
