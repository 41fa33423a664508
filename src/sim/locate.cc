// SPDX-License-Identifier: Apache-2.0
#include "sim/locate.h"

#include "sim/decisions.h"
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

std::optional<Divergence> divergence_of(const Program& program, int number,
                                        const DeviceTensors& parts,
                                        const Tensor& unsharded,
                                        Arithmetic arithmetic) {
  const Register& made = program.registers[static_cast<size_t>(number)];
  if (!made.layout.partial.empty()) return std::nullopt;
  for (size_t device = 0; device < parts.size(); ++device) {
    const Tensor expected = shard_of(program.mesh, made.layout, unsharded,
                                     static_cast<int64_t>(device));
    const double error = parted(expected, parts[device], arithmetic);
    if (error > 0) {
      return Divergence{made.value, static_cast<int64_t>(device), error, false};
    }
  }
  return std::nullopt;
}

std::optional<Divergence> first_divergence(
    Lanes& lanes, const std::function<bool(int stretch)>& begin) {
  const Program& program = lanes.program;
  const Arithmetic arithmetic = lanes.options.arithmetic;
  std::optional<Divergence> found;
  const auto compare = [&](const Instruction& at, DeviceTensors& made) {
    if (found) return;
    const int value = program.registers[static_cast<size_t>(at.result)].value;
    const Tensor whole = whole_of(lanes.unsharded, value);
    if (arithmetic != Arithmetic::Field && is_decision(program, at)) {
      const GraphNode& node =
          program.graph->nodes[static_cast<size_t>(at.node)];
      found =
          wrong_choice(program, at, whole_of(lanes.unsharded, node.operands[0]),
                       whole, made);
      if (found) return;
      replay(program, at, whole, made);
    }
    found = divergence_of(program, at.result, made, whole, arithmetic);
  };
  for (int s = 0; s < lanes.lives.stretches && !found; ++s) {
    if (begin && !begin(s)) break;
    advance_unsharded(lanes, s);
    lanes.sharded.advance(s, compare);
    release_results(lanes, s);
    release_values(lanes.held, s);
  }
  return found;
}

}  // namespace shardplan
