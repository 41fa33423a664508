// SPDX-License-Identifier: Apache-2.0
#include "sim/decisions.h"

#include <cstddef>
#include <vector>

#include "sim/execute.h"

namespace shardplan {

bool is_decision(const Program& program, const Instruction& instruction) {
  return instruction.kind == Instruction::Kind::Compute &&
         program.graph->nodes[static_cast<size_t>(instruction.node)]
             .op->is_decision;
}

int64_t replay(const Program& program, const Instruction& instruction,
               const Tensor& recorded, DeviceTensors& made) {
  const Layout& layout =
      program.registers[static_cast<size_t>(instruction.result)].layout;
  const Tensor choice = converted(recorded, made[0].element);
  for (size_t device = 0; device < made.size(); ++device) {
    if (shard_of(program.mesh, layout, choice, static_cast<int64_t>(device))
            .shape != made[device].shape) {
      return 0;
    }
  }
  const std::vector<double> own =
      values_of(assemble(program.mesh, layout, recorded.shape, made));
  const std::vector<double> taken = values_of(choice);
  int64_t otherwise = 0;
  for (size_t i = 0; i < own.size(); ++i) otherwise += own[i] != taken[i];
  for (size_t device = 0; device < made.size(); ++device) {
    made[device] =
        shard_of(program.mesh, layout, choice, static_cast<int64_t>(device));
  }
  return otherwise;
}

}  // namespace shardplan
