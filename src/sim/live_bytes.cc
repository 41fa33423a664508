// SPDX-License-Identifier: Apache-2.0
#include "sim/live_bytes.h"

#include <utility>

#include "graph/elementwise.h"

namespace shardplan {

LiveBytes::LiveBytes(const Program& program, std::vector<Storage> types)
    : program_(program),
      types_(std::move(types)),
      root_(program.registers.size(), -1),
      holders_(program.registers.size()),
      sizes_(program.registers.size()),
      bytes_(static_cast<size_t>(program.mesh.devices())) {}

bool LiveBytes::counts(int number) const {
  const auto value = static_cast<size_t>(
      program_.registers[static_cast<size_t>(number)].value);
  return !program_.weights[value];
}

void LiveBytes::made(const Instruction& at, const DeviceTensors& result) {
  const auto r = static_cast<size_t>(at.result);
  if (at.kind == Instruction::Kind::Load || !counts(at.result)) return;
  const bool is_view =
      at.kind == Instruction::Kind::Compute &&
      program_.graph->nodes[static_cast<size_t>(at.node)].op->repeat ==
          Repeat::View;
  // A view of what is not counted is not, either.
  root_[r] = is_view ? root_[static_cast<size_t>(at.operands[0])] : at.result;
  if (root_[r] < 0) return;
  const auto root = static_cast<size_t>(root_[r]);
  ++holders_[root];
  if (is_view) return;
  for (size_t device = 0; device < bytes_.size(); ++device) {
    sizes_[r].push_back(result[device].elements() * storage_bytes(types_[r]));
    bytes_[device] += sizes_[r].back();
  }
}

void LiveBytes::over(int number) {
  int& root = root_[static_cast<size_t>(number)];
  if (root < 0) return;
  const auto of = static_cast<size_t>(root);
  root = -1;
  if (--holders_[of] > 0) return;
  for (size_t device = 0; device < bytes_.size(); ++device) {
    bytes_[device] -= sizes_[of][device];
  }
  sizes_[of].clear();
}

}  // namespace shardplan
