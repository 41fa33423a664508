// SPDX-License-Identifier: Apache-2.0
#include "cost/computed_again.h"

#include <vector>

namespace shardplan {

PerInstruction<bool> computed_again(const ProgramView& view,
                                    const KeptValues& kept,
                                    const Remat& remat) {
  PerInstruction<bool> again(view.program->instructions.size());
  if (remat.is_none()) return again;
  std::vector<RegisterId> wanted;
  for (const InstructionId i : view.instructions()) {
    if (!is_repeated(view, remat, view.segment(i))) continue;
    for (const RegisterId reg : kept.reads[i].registers) {
      wanted.push_back(view.reg(reg).root);
    }
  }
  while (!wanted.empty()) {
    const RegisterId reg = wanted.back();
    wanted.pop_back();
    const HeldRegister& held = view.reg(reg);
    if (held.loaded || kept.kept[reg] ||
        !is_repeated(view, remat, held.segment) || again[held.maker]) {
      continue;
    }
    again[held.maker] = true;
    for (const RegisterId operand : view.at(held.maker).operands) {
      wanted.push_back(view.reg(operand).root);
      // Recomputing a view costs nothing; recomputing what made its storage
      // may.
      if (view.reg(operand).root != operand) {
        again[view.reg(operand).maker] = true;
      }
    }
  }
  return again;
}

}  // namespace shardplan
