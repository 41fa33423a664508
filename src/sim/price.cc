// SPDX-License-Identifier: Apache-2.0
#include "sim/price.h"

#include <optional>

#include "base/checked.h"
#include "graph/graph.h"
#include "spmd/layout.h"

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

namespace {

int64_t bytes_of(const Shape& shape, Storage type) {
  const std::optional<int64_t> elements = element_count(shape);
  SHARDPLAN_CHECK(elements.has_value());
  return *elements * storage_bytes(type);
}

const Register& register_of(const Program& program, int number) {
  return program.registers[static_cast<size_t>(number)];
}

// What comm/collective.h calls the payload.
int64_t payload_of(const Program& program, const Instruction& at,
                   Storage type) {
  const bool joined = at.kind == Instruction::Kind::Compute;
  const int operand = joined && at.overlapped >= 0
                          ? at.operands[static_cast<size_t>(at.overlapped)]
                          : at.operands[0];
  const int64_t n = shard_count(program.mesh, at.axes);
  switch (at.collective) {
    case CollectiveKind::AllGather:
      return bytes_of(register_of(program, operand).local_shape, type) * n;
    case CollectiveKind::ReduceScatter:
      return bytes_of(register_of(program, at.result).local_shape, type) * n;
    default:
      return bytes_of(register_of(program, operand).local_shape, type);
  }
}

int64_t permuted_bytes(const Program& program, const Instruction& at,
                       Storage type) {
  int64_t moved = 0;
  for (size_t device = 0; device < at.sources.size(); ++device) {
    moved += at.sources[device] != static_cast<int>(device);
  }
  return moved *
         bytes_of(register_of(program, at.operands[0]).local_shape, type);
}

}  // namespace

std::vector<CollectivePrice> price(const Program& program, Storage storage,
                                   Storage reduce) {
  const KeptTypes precision{Arithmetic::F32, storage, reduce};
  const std::vector<Storage> registers = register_types(program, precision);
  std::vector<CollectivePrice> prices;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& at = program.instructions[i];
    const bool joined =
        at.kind == Instruction::Kind::Compute && at.overlap != Overlap::Off;
    if (at.kind != Instruction::Kind::Collective && !joined) continue;
    CollectivePrice one{
        static_cast<int>(i),
        at.collective,
        at.axes,
        at.algorithm ? std::string(at.algorithm->name) : "direct",
        0,
        at.cause};
    const Storage type = transfer_types(at, registers, precision).sent;
    if (at.collective == CollectiveKind::Permute) {
      one.bytes = permuted_bytes(program, at, type);
    } else {
      const Ranks ranks = ranks_along(program.mesh, at.axes);
      const std::optional<int64_t> bytes = priced_bytes(
          *at.algorithm, at.collective, ranks, payload_of(program, at, type));
      SHARDPLAN_CHECK(bytes.has_value());
      one.bytes = *bytes * (program.mesh.devices() / ranks.count);
    }
    prices.push_back(std::move(one));
  }
  return prices;
}

}  // namespace shardplan
