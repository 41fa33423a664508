// SPDX-License-Identifier: Apache-2.0
#include "sim/precision.h"

namespace shardplan {

Storage kept_as(const Precision& precision, const Layout& layout) {
  const bool parts =
      !layout.partial.empty() && layout.reduction == Reduction::Sum;
  return parts ? precision.reduce : precision.storage;
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

TransferTypes transfer_types(const Program& program, const Instruction& at,
                             const Precision& precision) {
  const auto type_of = [&](int number) {
    return kept_as(precision,
                   program.registers[static_cast<size_t>(number)].layout);
  };
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
