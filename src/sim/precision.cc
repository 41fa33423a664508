// SPDX-License-Identifier: Apache-2.0
#include "sim/precision.h"

#include "graph/evaluate.h"

namespace shardplan {

std::vector<Storage> register_types(const Program& program,
                                    const KeptTypes& precision) {
  const std::vector<bool> integers = integer_values(*program.graph);
  std::vector<Storage> types;
  for (const Register& one : program.registers) {
    const bool parts =
        !one.layout.partial.empty() && one.layout.reduction == Reduction::Sum;
    const Storage type = parts ? precision.reduce : precision.storage;
    types.push_back(integers[static_cast<size_t>(one.value)] ? Storage::F32
                                                             : type);
  }
  return types;
}

void keep(const Tensor& tensor, Arithmetic arithmetic, Storage as,
          int threads) {
  if (arithmetic == Arithmetic::F32) round_to(tensor, as, threads);
}

Tensor kept(const Tensor& tensor, std::span<const Tensor> operands,
            Arithmetic arithmetic, Storage as, int threads) {
  if (arithmetic != Arithmetic::F32 || as == Storage::F32) return tensor;
  for (const Tensor& operand : operands) {
    if (operand.storage == tensor.storage) return tensor;
  }
  const Tensor own = tensor.storage.use_count() == 1 ? tensor : copy(tensor);
  round_to(own, as, threads);
  return own;
}

TransferTypes transfer_types(const Instruction& at,
                             std::span<const Storage> registers,
                             const KeptTypes& precision) {
  const auto type_of = [&](int number) {
    return registers[static_cast<size_t>(number)];
  };
  // Of a joined reduce-scatter: its product is sent as parts of a sum.
  TransferTypes types{precision.arithmetic, precision.reduce,
                      type_of(at.result)};
  if (at.kind != Instruction::Kind::Compute) {
    types.sent = type_of(at.operands[0]);
  } else if (at.overlapped >= 0) {
    types.sent = type_of(at.operands[static_cast<size_t>(at.overlapped)]);
  }
  return types;
}

}  // namespace shardplan
