// SPDX-License-Identifier: Apache-2.0
#include "sim/live_bytes.h"

#include <utility>

#include "graph/elementwise.h"

namespace shardplan {

LiveBytes::LiveBytes(const Program& program, PerRegister<Storage> types)
    : program_(program),
      types_(std::move(types)),
      root_(program.registers.size()),
      holders_(program.registers.size()),
      sizes_(program.registers.size()),
      bytes_(static_cast<size_t>(program.mesh.devices())) {}

bool LiveBytes::counts(RegisterId number) const {
  return !program_.graph->values[program_.registers[number].value].is_weight;
}

void LiveBytes::made(const Instruction& at, const DeviceTensors& result) {
  const RegisterId r = at.result;
  if (at.kind == Instruction::Kind::Load || !counts(at.result)) return;
  const bool is_view =
      at.kind == Instruction::Kind::Compute &&
      program_.graph->nodes[at.node].op->recompute_cost == RecomputeCost::View;
  // A view of what is not counted is not counted.
  root_[r] = is_view ? root_[at.operands[0]] : at.result;
  if (!root_[r]) return;
  ++holders_[root_[r]];
  if (is_view) return;
  for (size_t device = 0; device < bytes_.size(); ++device) {
    sizes_[r].push_back(result[device].elements() * storage_bytes(types_[r]));
    bytes_[device] += sizes_[r].back();
  }
}

void LiveBytes::over(RegisterId number) {
  const RegisterId of = std::exchange(root_[number], {});
  if (!of) return;
  if (--holders_[of] > 0) return;
  for (size_t device = 0; device < bytes_.size(); ++device) {
    bytes_[device] -= sizes_[of][device];
  }
  sizes_[of].clear();
}

}  // namespace shardplan
