// SPDX-License-Identifier: Apache-2.0
#include "sim/price.h"

#include <optional>

#include "base/check.h"
#include "sim/precision.h"
#include "spmd/groups.h"

namespace shardplan {
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
