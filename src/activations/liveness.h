// SPDX-License-Identifier: Apache-2.0
// What a forward pass holds, instruction after instruction.
//
// A result is there from its instruction on; what it read last is let go of
// behind it, unless it stays. Both the forward part of a training step
// (activations/segments.h), where what backward reads stays, and a forward pass
// alone are this walk; the latter is what the simulator counts as it runs
// (sim/live_bytes.h), to the byte.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "activations/kept.h"
#include "activations/options.h"
#include "base/checked.h"
#include "spmd/program.h"

namespace shardplan {

// Over `instructions`, which are in the order of the program.
//   bytes(reg)  of a register that has storage of its own; 0: not counted
//   stays(reg)  it is not let go of, of such registers
//   extra(i)    bytes that an instruction leaves beside its result
//   visit(i, held)  when it has run, before anything is let go of
template <typename Bytes, typename Stays, typename Extra, typename Visit>
void walk_forward(const ProgramView& view,
                  std::span<const InstructionId> instructions, Bytes bytes,
                  Stays stays, Extra extra, Visit visit) {
  Int128 held = 0;
  for (const InstructionId i : instructions) {
    const RegisterId result = view.at(i).result;
    if (view.reg(result).root == result) held += bytes(result);
    held += extra(i);
    visit(i, held);
    std::set<RegisterId> read;
    for (const RegisterId operand : view.at(i).operands) {
      read.insert(view.reg(operand).root);
    }
    for (const RegisterId root : read) {
      if (view.reg(root).last_read == i && !stays(root)) held -= bytes(root);
    }
  }
}

// Of a forward pass alone, operation by operation: bytes on a device that what
// is made of inputs takes, when an instruction has run; 0 of a Load. Inputs,
// parameters and what is made of parameters alone are not counted; outputs
// stay. Numbers take `element_bytes`, integers 4; experts have places for as
// many tokens as `expert_factor` says.
PerInstruction<Int128> forward_liveness(const Program& program,
                                        const SegmentOptions& options);

}  // namespace shardplan
