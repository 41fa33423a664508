// SPDX-License-Identifier: Apache-2.0
#include "cost/recomputed_instructions.h"

#include <vector>

namespace shardplan {

PerInstruction<bool> recomputed_instructions(const ProgramView& view,
                                             const SavedValues& saved,
                                             const Remat& remat) {
  PerInstruction<bool> result(view.program->instructions.size());
  if (remat.is_none()) return result;
  std::vector<RegisterId> wanted;
  for (const InstructionId i : view.instructions()) {
    if (!is_recomputed(view, remat, view.segment(i))) continue;
    for (const RegisterId reg : saved.reads[i].registers) {
      wanted.push_back(view.reg(reg).root);
    }
  }
  while (!wanted.empty()) {
    const RegisterId reg = wanted.back();
    wanted.pop_back();
    const HeldRegister& held = view.reg(reg);
    if (held.loaded || saved.saved[reg] ||
        !is_recomputed(view, remat, held.segment) || result[held.maker]) {
      continue;
    }
    result[held.maker] = true;
    for (const RegisterId operand : view.at(held.maker).operands) {
      wanted.push_back(view.reg(operand).root);
      // Recomputing a view costs nothing; recomputing what made its storage
      // may.
      if (view.reg(operand).root != operand) {
        result[view.reg(operand).maker] = true;
      }
    }
  }
  return result;
}

}  // namespace shardplan
