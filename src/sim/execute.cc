// SPDX-License-Identifier: Apache-2.0
#include "sim/execute.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/parallel.h"
#include "sim/overlapped.h"
#include "sim/part.h"
#include "spmd/groups.h"

namespace shardplan {
namespace {

// The instruction after which a register is not read any more; outputs always
// are.
std::vector<size_t> last_uses(const Program& program) {
  std::vector<size_t> last(program.registers.size(), 0);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (const int number : program.instructions[i].operands) {
      last[static_cast<size_t>(number)] = i;
    }
  }
  for (const int number : program.outputs) {
    last[static_cast<size_t>(number)] = program.instructions.size();
  }
  return last;
}

class Machine {
 public:
  Machine(const Program& program, std::span<const Tensor> values,
          const ExecuteOptions& options)
      : program_(program), values_(values), options_(options) {
    const auto devices = static_cast<size_t>(program.mesh.devices());
    run_.registers.resize(program.registers.size());
    run_.flops.resize(devices);
    run_.sent.assign(program.instructions.size(),
                     std::vector<int64_t>(devices));
  }

  Execution run() {
    last_use_ = last_uses(program_);
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& at = program_.instructions[i];
      run_.registers[static_cast<size_t>(at.result)] = step(i, at);
      for (const int number : at.operands) {
        if (is_over(number, i)) {
          run_.registers[static_cast<size_t>(number)].clear();
        }
      }
    }
    return std::move(run_);
  }

 private:
  // Whether nobody reads a register after an instruction.
  bool is_over(int number, size_t instruction) const {
    return !options_.keep_registers &&
           last_use_[static_cast<size_t>(number)] == instruction;
  }

  const DeviceTensors& tensors(int number) const {
    return run_.registers[static_cast<size_t>(number)];
  }

  Precision precision() const {
    return {options_.arithmetic, options_.storage, options_.reduce};
  }
  TransferTypes types_of(const Instruction& at) const {
    return transfer_types(program_, at, precision());
  }

  DeviceTensors each_device(const std::function<Tensor(size_t)>& work) const {
    DeviceTensors result(static_cast<size_t>(program_.mesh.devices()));
    parallel_for(program_.mesh.devices(), options_.threads, [&](int64_t d) {
      result[static_cast<size_t>(d)] = work(static_cast<size_t>(d));
    });
    return result;
  }

  DeviceTensors step(size_t number, const Instruction& at) {
    std::vector<int64_t>& sent = run_.sent[number];
    switch (at.kind) {
      case Instruction::Kind::Load: {
        const Register& made =
            program_.registers[static_cast<size_t>(at.result)];
        const Tensor& whole = values_[static_cast<size_t>(made.value)];
        return each_device([&](size_t device) {
          const Tensor part = shard_of(program_.mesh, made.layout, whole,
                                       static_cast<int64_t>(device));
          return kept(part, {}, options_.arithmetic, options_.storage);
        });
      }
      case Instruction::Kind::Slice:
        return each_device([&](size_t device) { return cut(at, device); });
      case Instruction::Kind::Collective: {
        DeviceTensors operand = tensors(at.operands[0]);
        if (is_over(at.operands[0], number)) {
          run_.registers[static_cast<size_t>(at.operands[0])].clear();
        }
        return run_collective(program_.mesh, at, std::move(operand),
                              types_of(at), options_.threads, sent);
      }
      default:
        return compute(at, sent);
    }
  }

  Tensor cut(const Instruction& at, size_t device) const {
    const Tensor& whole = tensors(at.operands[0])[device];
    const int64_t parts = shard_count(program_.mesh, at.axes);
    const int64_t index =
        shard_index(program_.mesh, at.axes,
                    program_.mesh.coordinates(static_cast<int64_t>(device)));
    const Slice part =
        part_of(whole.shape[static_cast<size_t>(at.dim)], index, parts);
    return slice(whole, at.dim, part.begin, part.end);
  }

  DeviceTensors compute(const Instruction& at, std::vector<int64_t>& sent) {
    std::vector<DevicePart> parts;
    const size_t devices = static_cast<size_t>(program_.mesh.devices());
    const GraphNode& node = program_.graph->nodes[static_cast<size_t>(at.node)];
    // Few devices leave threads for the operation itself.
    const int inner =
        static_cast<int>(devices) >= options_.threads ? 1 : options_.threads;
    for (size_t device = 0; device < devices; ++device) {
      DevicePart& part = parts.emplace_back();
      for (const int number : at.operands) {
        part.operands.push_back(tensors(number)[device]);
      }
      part.context.arithmetic = options_.arithmetic;
      part.context.rule = &node.rule;
      part.context.range = range_of(program_.mesh, node.rule, at.factor_axes,
                                    static_cast<int64_t>(device));
      part.context.threads = inner;
    }
    if (at.overlap != Overlap::Off) {
      return run_overlapped(program_.mesh, at, node, parts, types_of(at),
                            options_.threads, run_.flops, sent);
    }
    const Storage as = kept_as(
        precision(), program_.registers[static_cast<size_t>(at.result)].layout);
    return each_device([&](size_t device) {
      const Tensor result = run_part(node, parts[device], run_.flops[device]);
      return kept(result, std::exchange(parts[device].operands, {}),
                  options_.arithmetic, as);
    });
  }

  const Program& program_;
  std::span<const Tensor> values_;
  const ExecuteOptions& options_;
  std::vector<size_t> last_use_;  // per register
  Execution run_;
};

}  // namespace

int64_t Execution::bytes_moved() const {
  int64_t total = 0;
  for (const std::vector<int64_t>& of_instruction : sent) {
    for (const int64_t bytes : of_instruction) total += bytes;
  }
  return total;
}

Execution execute(const Program& program, std::span<const Tensor> values,
                  const ExecuteOptions& options) {
  return Machine(program, values, options).run();
}

Tensor shard_of(const Mesh& mesh, const Layout& layout, const Tensor& whole,
                int64_t device) {
  Tensor part = whole;
  const std::vector<int64_t> indices = shard_indices(mesh, layout, device);
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    const Slice rows = part_of(whole.shape[dim], indices[dim],
                               shard_count(mesh, layout.spec.dims[dim]));
    part = slice(part, static_cast<int>(dim), rows.begin, rows.end);
  }
  return part;
}

Tensor assemble(const Mesh& mesh, const Layout& layout, const Shape& shape,
                const DeviceTensors& parts) {
  Tensor whole = make_tensor(parts[0].element, shape);
  for (size_t device = 0; device < parts.size(); ++device) {
    copy_into(shard_of(mesh, layout, whole, static_cast<int64_t>(device)),
              parts[device]);
  }
  return whole;
}

}  // namespace shardplan
