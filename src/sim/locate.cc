// SPDX-License-Identifier: Apache-2.0
#include "sim/locate.h"

#include "sim/verdict.h"

namespace shardplan {
namespace {

// 0 where both are the same as far as the arithmetic can tell.
double parted(const Tensor& expected, const Tensor& got,
              Arithmetic arithmetic) {
  if (expected.shape != got.shape) return kInfinity;
  if (arithmetic == Arithmetic::Field) {
    return bitwise_equal(expected, got) ? 0 : 1;
  }
  const double error = structural_error(expected, got);
  return error > kMismatch ? error : 0;
}

}  // namespace

std::optional<Divergence> first_divergence(const Program& program,
                                           const Execution& run,
                                           std::span<const Tensor> unsharded,
                                           Arithmetic arithmetic) {
  for (const Instruction& at : program.instructions) {
    const Register& made = program.registers[static_cast<size_t>(at.result)];
    if (!made.layout.partial.empty()) continue;
    const Tensor& whole = unsharded[static_cast<size_t>(made.value)];
    const DeviceTensors& parts = run.registers[static_cast<size_t>(at.result)];
    for (size_t device = 0; device < parts.size(); ++device) {
      const Tensor expected = shard_of(program.mesh, made.layout, whole,
                                       static_cast<int64_t>(device));
      const double error = parted(expected, parts[device], arithmetic);
      if (error > 0) {
        return Divergence{made.value, static_cast<int64_t>(device), error,
                          false};
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardplan
