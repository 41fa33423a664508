// SPDX-License-Identifier: Apache-2.0
#include "activations/liveness.h"

#include <cstddef>

namespace shardplan {

PerInstruction<Int128> forward_liveness(const Program& program,
                                        const SegmentOptions& options) {
  const ProgramView view = view_of(program, options);
  // What no norm and no softmax holds in float32 on its way.
  const auto k = static_cast<size_t>(Keeping::Fused);
  PerRegister<bool> outputs(view.registers.size());
  for (const RegisterId output : program.outputs) {
    outputs[view.reg(output).root] = true;
  }
  std::vector<InstructionId> all;
  for (const InstructionId i : view.instructions()) {
    if (view.at(i).kind != Instruction::Kind::Load) all.push_back(i);
  }
  PerInstruction<Int128> alive(program.instructions.size());
  walk_forward(
      view, all,
      [&](RegisterId reg) {
        const HeldRegister& of = view.reg(reg);
        return of.weight || of.loaded ? Int128{0} : of.bytes[k];
      },
      [&](RegisterId reg) { return outputs[reg]; },
      [](InstructionId) { return Int128{0}; },
      [&](InstructionId i, Int128 held) { alive[i] = held; });
  return alive;
}

}  // namespace shardplan
