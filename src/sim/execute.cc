// SPDX-License-Identifier: Apache-2.0

#include "sim/execute.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "sim/simulate.h"
#include "spmd/layout.h"
#include "spmd/shard_mapped.h"

namespace shardplan {
namespace {

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape);
  return shapes;
}

// Returns the device's own rows of dimensions that arrive whole although their
// factor is sharded, because they do not divide (the shapes of operands agree
// on every factor).
Tensor without_rest(Tensor operand, const std::vector<DimFactors>& dims,
                    const ShardingRule& rule, const LocalRange& range) {
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim].size() != 1) continue;
    const auto f = static_cast<size_t>(dims[dim][0]);
    const int64_t rows = range.sizes[f];
    const int64_t whole = rule.factors[f].size;
    if (rows == whole || operand.shape[dim] != whole) continue;
    operand = slice(operand, static_cast<int>(dim), range.offsets[f],
                    range.offsets[f] + rows);
  }
  return operand;
}

Tensor run_mapped(const GraphNode& node, const DevicePart& part,
                  int64_t& flops) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < part.operands.size(); ++i) {
    operands.push_back(without_rest(part.operands[i], node.rule.operands[i],
                                    node.rule, part.context.range));
  }
  const std::vector<Shape> shapes = shapes_of(operands);
  const auto attributes = mapped_attributes(node, shapes);
  SHARDPLAN_CHECK(attributes.has_value());
  RunContext context = part.context;
  const ShardingRule rule = node.op->rule(shapes, *attributes);
  if (!node.op->is_lookup) {
    context.rule = &rule;
    context.range = {};
  }
  Tensor result = node.op->run(operands, *attributes, context);
  flops += node.op->flops(shapes, result.shape, *attributes);
  return result;
}

}  // namespace

LocalRange range_of(const Mesh& mesh, const ShardingRule& rule,
                    const FactorAxes& axes, int64_t device) {
  LocalRange range;
  const std::vector<int64_t> at = mesh.coordinates(device);
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const int64_t size = rule.factors[f].size / shard_count(mesh, axes[f]);
    range.sizes.push_back(size);
    range.offsets.push_back(size * shard_index(mesh, axes[f], at));
  }
  return range;
}

Tensor run_part(const GraphNode& node, const DevicePart& part, int64_t& flops) {
  if (node.shard_map) return run_mapped(node, part, flops);
  const std::vector<Shape> shapes = shapes_of(part.operands);
  Tensor result = node.op->run(part.operands, node.attributes, part.context);
  flops += node.op->flops(shapes, result.shape, node.attributes);
  return result;
}

namespace {

// Returns the only factor of a dimension, as an einsum has.
int factor_at(const std::vector<DimFactors>& dims, int dim) {
  return dims[static_cast<size_t>(dim)][0];
}

Tensor rows_of_factor(const Tensor& tensor, const std::vector<DimFactors>& dims,
                      int factor, const Slice& rows) {
  Tensor part = tensor;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim][0] != factor) continue;
    part = slice(part, static_cast<int>(dim), rows.begin, rows.end);
  }
  return part;
}

// Returns the same operation on some rows of one factor.
DevicePart narrowed(const GraphNode& node, const DevicePart& whole, int factor,
                    const Slice& rows) {
  DevicePart part;
  part.context = whole.context;
  const auto f = static_cast<size_t>(factor);
  part.context.range.offsets[f] += rows.begin;
  part.context.range.sizes[f] = rows.end - rows.begin;
  for (size_t i = 0; i < whole.operands.size(); ++i) {
    part.operands.push_back(
        rows_of_factor(whole.operands[i], node.rule.operands[i], factor, rows));
  }
  return part;
}

Tensor empty_result(const GraphNode& node, const DevicePart& part) {
  Shape shape;
  for (const DimFactors& dim : node.rule.result) {
    shape.push_back(part.context.range.sizes[static_cast<size_t>(dim[0])]);
  }
  return make_tensor(element_of(part.context.arithmetic), shape);
}

// Multiplies chunk by chunk. A chunk gives rows of the result, or a term of it.
Tensor multiply_in_order(const GraphNode& node, const DevicePart& part,
                         int factor, const std::vector<Slice>& order,
                         int64_t& flops) {
  bool in_result = false;
  for (const DimFactors& dim : node.rule.result) {
    in_result = in_result || dim[0] == factor;
  }
  Tensor result = empty_result(node, part);
  bool first = true;
  for (const Slice& rows : order) {
    const Tensor chunk =
        run_part(node, narrowed(node, part, factor, rows), flops);
    if (in_result) {
      copy_into(rows_of_factor(result, node.rule.result, factor, rows), chunk);
    } else if (first) {
      copy_into(result, chunk);
    } else {
      add_into(result, chunk, part.context.arithmetic);
    }
    first = false;
  }
  return result;
}

class Overlapped {
 public:
  Overlapped(const Mesh& mesh, const Instruction& at, const GraphNode& node,
             const TransferTypes& types, std::vector<DevicePart>& parts)
      : mesh_(mesh), at_(at), node_(node), types_(types), parts_(parts) {}

  // Gathers the operand, one group at a time; then every device multiplies.
  DeviceTensors gather_first(int threads, std::vector<int64_t>& flops,
                             std::vector<int64_t>& sent) {
    const size_t operand = *at_.overlapped;
    const int factor = factor_at(node_.rule.operands[operand], at_.dim);
    each_group([&](const std::vector<int>& group) {
      std::vector<Tensor> chunks;
      for (const int device : group) {
        chunks.push_back(part(device).operands[operand]);
      }
      std::vector<int64_t> bytes(group.size());
      const std::vector<Tensor> gathered =
          gather(*at_.algorithm, ranks_along(mesh_, at_.axes), at_.dim, chunks,
                 types_, threads, bytes);
      for (size_t r = 0; r < group.size(); ++r) {
        part(group[r]).operands[operand] = gathered[r];
        sent[static_cast<size_t>(group[r])] += bytes[r];
      }
    });
    const int64_t count = shard_count(mesh_, at_.axes);
    return each_device(threads, [&](size_t device) {
      const int64_t rank = rank_of(device);
      const Tensor& whole = parts_[device].operands[operand];
      const std::vector<Slice> order = arrival_order(
          at_.overlap, rank, count, whole.shape[static_cast<size_t>(at_.dim)]);
      const Tensor product = multiply_in_order(node_, parts_[device], factor,
                                               order, flops[device]);
      round_in_place(product, types_.arithmetic, types_.result);
      return product;
    });
  }

  // Multiplies for every rank on every device; then sums the terms.
  DeviceTensors scatter_after(int threads, std::vector<int64_t>& flops,
                              std::vector<int64_t>& sent) {
    const int factor = factor_at(node_.rule.result, at_.dim);
    const int64_t count = shard_count(mesh_, at_.axes);
    DeviceTensors terms = each_device(threads, [&](size_t device) {
      const DevicePart& mine = parts_[device];
      const int64_t size =
          mine.context.range.sizes[static_cast<size_t>(factor)];
      std::vector<Slice> order;
      for (int64_t r = 0; r < count; ++r) {
        order.push_back(part_of(size, r, count));
      }
      return multiply_in_order(node_, mine, factor, order, flops[device]);
    });
    DeviceTensors result(terms.size());
    each_group([&](const std::vector<int>& group) {
      std::vector<Tensor> mine;
      for (const int device : group) {
        mine.push_back(std::move(terms[static_cast<size_t>(device)]));
      }
      std::vector<int64_t> bytes(group.size());
      std::vector<Tensor> sums =
          scatter(*at_.algorithm, ranks_along(mesh_, at_.axes), at_.dim,
                  std::move(mine), Reduction::Sum, types_, threads, bytes);
      for (size_t r = 0; r < group.size(); ++r) {
        result[static_cast<size_t>(group[r])] = std::move(sums[r]);
        sent[static_cast<size_t>(group[r])] += bytes[r];
      }
    });
    return result;
  }

 private:
  DevicePart& part(int device) { return parts_[static_cast<size_t>(device)]; }
  int64_t rank_of(size_t device) const {
    return shard_index(mesh_, at_.axes,
                       mesh_.coordinates(static_cast<int64_t>(device)));
  }

  template <typename Work>
  void each_group(const Work& work) {
    for (const std::vector<int>& group : device_groups(mesh_, at_.axes)) {
      work(group);
    }
  }
  template <typename Work>
  DeviceTensors each_device(int threads, const Work& work) {
    DeviceTensors result(parts_.size());
    parallel_for(static_cast<int64_t>(parts_.size()), threads, [&](int64_t d) {
      result[static_cast<size_t>(d)] = work(static_cast<size_t>(d));
    });
    return result;
  }

  const Mesh& mesh_;
  const Instruction& at_;
  const GraphNode& node_;
  const TransferTypes& types_;
  std::vector<DevicePart>& parts_;
};

}  // namespace

DeviceTensors run_overlapped(const Mesh& mesh, const Instruction& instruction,
                             const GraphNode& node,
                             std::vector<DevicePart>& parts,
                             const TransferTypes& types, int threads,
                             std::vector<int64_t>& flops,
                             std::vector<int64_t>& sent) {
  Overlapped run(mesh, instruction, node, types, parts);
  return instruction.collective == CollectiveKind::AllGather
             ? run.gather_first(threads, flops, sent)
             : run.scatter_after(threads, flops, sent);
}

std::vector<Slice> arrival_order(Overlap overlap, int64_t rank, int64_t count,
                                 int64_t size) {
  std::vector<Slice> order;
  const bool split = overlap == Overlap::Split;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = (rank - i + count) % count;
    Slice rows = part_of(size, from, count);
    if (split) rows.end = rows.begin + (rows.end - rows.begin) / 2;
    order.push_back(rows);
  }
  for (int64_t i = 0; split && i < count; ++i) {
    Slice rows = part_of(size, (rank + i) % count, count);
    rows.begin += (rows.end - rows.begin) / 2;
    order.push_back(rows);
  }
  return order;
}

ShardedRun::ShardedRun(const Program& program, const Lifetimes& lives,
                       ReadWhole read, const ExecuteOptions& options)
    : program_(program),
      lives_(lives),
      read_(std::move(read)),
      options_(options),
      precision_{options.arithmetic, options.storage, options.reduce},
      types_(register_types(program, precision_)),
      live_(program, types_),
      reported_(program.registers.size()) {
  const auto devices = static_cast<size_t>(program.mesh.devices());
  run_.registers.resize(program.registers.size());
  run_.flops.resize(devices);
  run_.sent.assign(program.instructions.size(), std::vector<int64_t>(devices));
  run_.live.resize(program.instructions.size());
}

void ShardedRun::advance(int phase, const OnResult& on_result) {
  on_result_ = on_result;
  for (; program_.instructions.has(next_); ++next_.number) {
    if (lives_.phase[next_] > phase) break;
    const Instruction& at = program_.instructions[next_];
    if (at.kind == Instruction::Kind::Load) continue;
    for (const RegisterId number : at.operands) tensors(number);
    const RegisterId result = at.result;
    run_.registers[result] = step(next_, run_.sent[next_]);
    if (lives_.rematerialised[result]) rematerialised_.push_back(at.result);
    if (on_result_) on_result_(at, run_.registers[result]);
    if (options_.counts_live) count_live(next_);
    for (const RegisterId number : at.operands) {
      if (is_over(number, next_)) release(number);
    }
  }
  if (phase == lives_.phases - 1) {
    for (const RegisterId number : program_.outputs) tensors(number);
  }
  if (options_.retain_registers) return;
  std::vector<RegisterId> retained;
  for (const RegisterId number : rematerialised_) {
    const auto& reads = lives_.reads[number];
    if (is_needed_soon(reads, phase)) {
      retained.push_back(number);
    } else {
      release(number);
    }
  }
  rematerialised_ = std::move(retained);
}

void ShardedRun::count_live(InstructionId instruction) {
  const Instruction& at = program_.instructions[instruction];
  live_.made(at, run_.registers[at.result]);
  run_.live[instruction] = live_.bytes();
  for (const RegisterId number : at.operands) {
    if (is_last_read(number, instruction)) live_.over(number);
  }
}

const DeviceTensors& ShardedRun::tensors(RegisterId number) {
  DeviceTensors& held = run_.registers[number];
  if (!held.empty()) return held;
  SHARDPLAN_CHECK(lives_.rematerialised[number]);
  const InstructionId maker = lives_.maker[number];
  const Instruction& at = program_.instructions[maker];
  for (const RegisterId operand : at.operands) tensors(operand);
  // A real device would have held the value, so nothing counts as sent twice.
  std::vector<int64_t> sent(run_.flops.size());
  held = step(maker, sent);
  rematerialised_.push_back(number);
  if (on_result_ && !reported_[number] && at.kind == Instruction::Kind::Load) {
    on_result_(at, held);
  }
  reported_[number] = true;
  return held;
}

Execution ShardedRun::finish() {
  on_result_ = {};
  for (const RegisterId number : program_.outputs) tensors(number);
  for (const RegisterId r : program_.registers.ids()) {
    const bool is_output = !program_.instructions.has(lives_.last_read[r]);
    if (options_.retain_registers && lives_.maker[r]) {
      tensors(r);
    } else if (!options_.retain_registers && !is_output) {
      release(r);
    }
  }
  return std::move(run_);
}

// Returns whether no instruction reads a register after this one.
bool ShardedRun::is_last_read(RegisterId number,
                              InstructionId instruction) const {
  return lives_.last_read[number] <= instruction;
}

bool ShardedRun::is_over(RegisterId number, InstructionId instruction) const {
  return !options_.retain_registers && is_last_read(number, instruction);
}

void ShardedRun::release(RegisterId number) { run_.registers[number].clear(); }

DeviceTensors ShardedRun::each_device(
    const std::function<Tensor(size_t)>& work) const {
  DeviceTensors result(static_cast<size_t>(program_.mesh.devices()));
  parallel_for(program_.mesh.devices(), options_.threads, [&](int64_t d) {
    result[static_cast<size_t>(d)] = work(static_cast<size_t>(d));
  });
  return result;
}

// Runs an instruction. REQUIRES: its operands are held.
DeviceTensors ShardedRun::step(InstructionId number,
                               std::vector<int64_t>& sent) {
  const Instruction& at = program_.instructions[number];
  switch (at.kind) {
    case Instruction::Kind::Load:
      return load(at);
    case Instruction::Kind::Slice:
      return cut(at);
    case Instruction::Kind::Collective: {
      DeviceTensors operand = tensors(at.operands[0]);
      if (is_over(at.operands[0], number)) release(at.operands[0]);
      const TransferTypes types = transfer_types(at, types_, precision_);
      if (at.collective == CollectiveKind::Permute) {
        return permute(permute_sources(program_, at), operand, types.sent,
                       sent);
      }
      DeviceTensors result = run_collective(
          program_.mesh, at, std::move(operand), types, options_.threads, sent);
      if (at.collective == CollectiveKind::AllGather) {
        const auto dim = static_cast<size_t>(at.dim);
        const int64_t rows = program_.registers[at.result].local_shape[dim];
        // Removes the padding of shards, which ends the gathered dimension.
        for (Tensor& all : result) {
          if (all.shape[dim] > rows) all = slice(all, at.dim, 0, rows);
        }
      }
      return result;
    }
    case Instruction::Kind::Compute:
      break;
  }
  return compute(at, sent);
}

DeviceTensors ShardedRun::load(const Instruction& at) const {
  const Register& made = program_.registers[at.result];
  const Tensor whole = read_(made.value);
  return each_device([&](size_t device) {
    return shard_of(program_.mesh, made.layout, whole,
                    static_cast<int64_t>(device));
  });
}

DeviceTensors ShardedRun::cut(const Instruction& at) {
  const DeviceTensors& from = tensors(at.operands[0]);
  const int64_t parts = shard_count(program_.mesh, at.axes);
  return each_device([&](size_t device) {
    const Tensor& whole = from[device];
    const int64_t index =
        shard_index(program_.mesh, at.axes,
                    program_.mesh.coordinates(static_cast<int64_t>(device)));
    const Slice part =
        part_of(whole.shape[static_cast<size_t>(at.dim)], index, parts);
    return slice(whole, at.dim, part.begin, part.end);
  });
}

DeviceTensors ShardedRun::compute(const Instruction& at,
                                  std::vector<int64_t>& sent) {
  std::vector<DevicePart> parts;
  const size_t devices = static_cast<size_t>(program_.mesh.devices());
  const GraphNode& node = program_.graph->nodes[at.node];
  // Few devices leave threads for the operation itself.
  const int inner =
      static_cast<int>(devices) >= options_.threads ? 1 : options_.threads;
  for (size_t device = 0; device < devices; ++device) {
    DevicePart& part = parts.emplace_back();
    for (const RegisterId number : at.operands) {
      part.operands.push_back(tensors(number)[device]);
    }
    part.context.arithmetic = options_.arithmetic;
    part.context.rule = &node.rule;
    part.context.range = range_of(program_.mesh, node.rule, at.factor_axes,
                                  static_cast<int64_t>(device));
    part.context.threads = inner;
  }
  if (at.overlap != Overlap::Off) {
    return run_overlapped(program_.mesh, at, node, parts,
                          transfer_types(at, types_, precision_),
                          options_.threads, run_.flops, sent);
  }
  const Storage as = types_[at.result];
  // Products with one weight are computed together, but each counts separately.
  std::vector<Tensor> together;
  if (node.op->run_all != nullptr && !node.shard_map) {
    together = node.op->run_all(parts, node.attributes, options_.threads);
  }
  return each_device([&](size_t device) {
    DevicePart& part = parts[device];
    Tensor result;
    if (together.empty()) {
      result = run_part(node, part, run_.flops[device]);
    } else {
      result = std::exchange(together[device], {});
      run_.flops[device] += node.op->flops(shapes_of(part.operands),
                                           result.shape, node.attributes);
    }
    return stored_result(result, std::exchange(part.operands, {}),
                         options_.arithmetic, as, inner);
  });
}

int64_t Execution::bytes_moved() const {
  int64_t total = 0;
  for (const std::vector<int64_t>& of_instruction : sent) {
    for (const int64_t bytes : of_instruction) total += bytes;
  }
  return total;
}

Execution execute(const Program& program, std::span<const Tensor> values,
                  const ExecuteOptions& options) {
  const Lifetimes lives = lifetimes_of(program);
  const auto read = [&](ValueId value) {
    return as_stored(program.graph->values[value], values[value.index()],
                     {options.arithmetic, options.storage}, options.threads);
  };
  ShardedRun run(program, lives, read, options);
  for (int s = 0; s < lives.phases; ++s) run.advance(s);
  return run.finish();
}

Tensor shard_of(const Mesh& mesh, const Layout& layout, const Tensor& whole,
                int64_t device) {
  Tensor part = whole;
  const std::vector<int64_t> indices = shard_indices(mesh, layout, device);
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    const AxisNames& axes = layout.spec.dims[dim];
    const int64_t size = whole.shape[dim];
    // Even axes cut equal blocks; uneven axes cut a block into parts of `rows`
    // rows, the last of which may have fewer.
    const int64_t parts = shard_count(mesh, uneven_axes(mesh, axes, size));
    const int64_t block = size * parts / shard_count(mesh, axes);
    const int64_t rows = ceil_div(block, parts);
    const int64_t start = indices[dim] / parts * block;
    const int64_t begin = std::min(block, indices[dim] % parts * rows);
    const int64_t end = std::min(block, begin + rows);
    Tensor own = slice(part, static_cast<int>(dim), start + begin, start + end);
    if (end - begin < rows) {
      Shape shape = own.shape;
      shape[dim] = rows;
      Tensor padded = make_tensor(own.element, shape);
      copy_into(slice(padded, static_cast<int>(dim), 0, end - begin), own);
      own = std::move(padded);
    }
    part = std::move(own);
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

namespace {

// How many phases ahead counts as soon: enough that a weight that is used twice
// in a layer is read once.
constexpr int kSoon = 4;

void set_phases(const Program& program, Lifetimes& lives) {
  const auto nodes = static_cast<int>(program.graph->nodes.size());
  lives.phases = nodes + 1;
  lives.phase.assign(program.instructions.size(), nodes);
  int next = nodes;
  InstructionId i(program.instructions.size());
  while (i.number-- > 0) {
    const Instruction& at = program.instructions[i];
    if (at.kind == Instruction::Kind::Compute) {
      next = std::min(next, at.node.number);
    }
    lives.phase[i] = at.kind == Instruction::Kind::Load ? -1 : next;
  }
}

bool copies_numbers(const Instruction& at) {
  switch (at.kind) {
    case Instruction::Kind::Load:
    case Instruction::Kind::Slice:
      return true;
    case Instruction::Kind::Collective:
      return at.collective != CollectiveKind::AllReduce &&
             at.collective != CollectiveKind::ReduceScatter;
    case Instruction::Kind::Compute:
      break;
  }
  return false;
}

template <typename Lists>
void sort_out(Lists& all) {
  for (std::vector<int>& phases : all) {
    std::sort(phases.begin(), phases.end());
    phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  }
}

}  // namespace

Lifetimes lifetimes_of(const Program& program) {
  Lifetimes lives;
  set_phases(program, lives);
  lives.maker.resize(program.registers.size());
  lives.rematerialised.assign(program.registers.size(), false);
  lives.reads.resize(program.registers.size());
  lives.last_read.assign(program.registers.size(), InstructionId(0));
  lives.needed.resize(program.graph->values.size());
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& at = program.instructions[i];
    const RegisterId result = at.result;
    lives.maker[result] = i;
    lives.rematerialised[result] =
        copies_numbers(at) &&
        std::all_of(
            at.operands.begin(), at.operands.end(),
            [&](RegisterId number) { return lives.rematerialised[number]; });
    if (at.kind != Instruction::Kind::Load) {
      lives.needed[program.registers[result].value].push_back(lives.phase[i]);
    }
    for (const RegisterId operand : at.operands) {
      const ValueId value = program.registers[operand].value;
      lives.reads[operand].push_back(lives.phase[i]);
      lives.last_read[operand] = i;
      lives.needed[value].push_back(lives.phase[i]);
    }
  }
  const int last = lives.phases - 1;
  for (const RegisterId number : program.outputs) {
    lives.reads[number].push_back(last);
    lives.last_read[number] = InstructionId(program.instructions.size());
  }
  for (const NodeId n : program.graph->nodes.ids()) {
    for (const ValueId operand : program.graph->nodes[n].operands) {
      lives.needed[operand].push_back(n.number);
    }
  }
  for (const ValueId value : program.graph->outputs) {
    lives.needed[value].push_back(last);
  }
  sort_out(lives.reads);
  sort_out(lives.needed);
  return lives;
}

bool is_needed_soon(const std::vector<int>& phases, int after) {
  const auto next = std::upper_bound(phases.begin(), phases.end(), after);
  return next != phases.end() && *next <= after + kSoon;
}

bool is_needed_later(const std::vector<int>& phases, int after) {
  return !phases.empty() && phases.back() > after;
}

}  // namespace shardplan
