// SPDX-License-Identifier: Apache-2.0
#include "activations/liveness.h"

#include <cstddef>

namespace shardplan {

std::vector<Int128> forward_liveness(const Program& program,
                                     const SegmentOptions& options) {
  const ProgramView view = view_of(program, options);
  // What no norm and no softmax holds in float32 on its way.
  const auto k = static_cast<size_t>(Keeping::Fused);
  std::vector<bool> outputs(view.registers.size());
  for (const int output : program.outputs) {
    outputs[static_cast<size_t>(view.reg(output).root)] = true;
  }
  std::vector<int> all;
  for (int i = 0; i < view.instructions(); ++i) {
    if (view.at(i).kind != Instruction::Kind::Load) all.push_back(i);
  }
  std::vector<Int128> alive(program.instructions.size());
  walk_forward(
      view, all,
      [&](int reg) {
        const HeldRegister& of = view.reg(reg);
        return of.weight || of.loaded ? Int128{0} : of.bytes[k];
      },
      [&](int reg) { return outputs[static_cast<size_t>(reg)]; },
      [](int) { return Int128{0}; },
      [&](int i, Int128 held) { alive[static_cast<size_t>(i)] = held; });
  return alive;
}

}  // namespace shardplan
