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
    const size_t f = to_size(dims[dim][0]);
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
  nth(part.context.range.offsets, factor) += rows.begin;
  nth(part.context.range.sizes, factor) = rows.end - rows.begin;
  for (size_t i = 0; i < whole.operands.size(); ++i) {
    part.operands.push_back(
        rows_of_factor(whole.operands[i], node.rule.operands[i], factor, rows));
  }
  return part;
}

Tensor empty_result(const GraphNode& node, const DevicePart& part) {
  Shape shape;
  for (const DimFactors& dim : node.rule.result) {
    shape.push_back(nth(part.context.range.sizes, dim[0]));
  }
  return make_tensor(element_of(part.context.arithmetic), shape);
}

// Multiplies chunk by chunk. A chunk gives rows of the result, or a term of it.
Tensor multiply_in_order(const GraphNode& node, const DevicePart& part,
                         int factor, const std::vector<Slice>& order,
                         int64_t& flops) {
  const bool in_result = std::ranges::any_of(
      node.rule.result,
      [&](const DimFactors& dim) { return dim[0] == factor; });
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

// Returns what work(device) gives for every device.
template <typename Work>
DeviceTensors on_each_device(int64_t devices, int threads, const Work& work) {
  DeviceTensors result(to_size(devices));
  parallel_for(devices, threads,
               [&](int64_t device) { nth(result, device) = work(device); });
  return result;
}

// Runs a product together with its collective. `parts` is what every device has
// before the overlapped operand is gathered. Chunks that end in the same sum on
// a device are added up in float32, as the product adds up its terms; sums that
// are sent are rounded (sim/transfers.h). REQUIRES: the node is an einsum.
DeviceTensors run_overlapped(const Mesh& mesh, const Instruction& at,
                             const GraphNode& node,
                             std::vector<DevicePart>& parts,
                             const TransferTypes& types, int threads,
                             std::vector<int64_t>& flops,
                             std::vector<int64_t>& sent) {
  const int64_t count = shard_count(mesh, at.axes);
  if (at.collective == CollectiveKind::AllGather) {
    const size_t operand = *at.overlapped;
    const int factor = nth(node.rule.operands[operand], at.dim)[0];
    DeviceTensors chunks;
    for (const DevicePart& part : parts) {
      chunks.push_back(part.operands[operand]);
    }
    const DeviceTensors gathered =
        run_collective(mesh, at, std::move(chunks), types, threads, sent);
    return on_each_device(mesh.devices(), threads, [&](int64_t device) {
      DevicePart& part = nth(parts, device);
      part.operands[operand] = nth(gathered, device);
      const int64_t rank = shard_index(mesh, at.axes, mesh.coordinates(device));
      const std::vector<Slice> order = arrival_order(
          at.overlap, rank, count, nth(part.operands[operand].shape, at.dim));
      const Tensor product =
          multiply_in_order(node, part, factor, order, nth(flops, device));
      round_in_place(product, types.arithmetic, types.result);
      return product;
    });
  }
  // Every device multiplies for every rank; then the terms are summed.
  const int factor = nth(node.rule.result, at.dim)[0];
  DeviceTensors terms =
      on_each_device(mesh.devices(), threads, [&](int64_t device) {
        const DevicePart& part = nth(parts, device);
        const int64_t size = nth(part.context.range.sizes, factor);
        std::vector<Slice> order;
        for (int64_t r = 0; r < count; ++r) {
          order.push_back(part_of(size, r, count));
        }
        return multiply_in_order(node, part, factor, order, nth(flops, device));
      });
  return run_collective(mesh, at, std::move(terms), types, threads, sent);
}

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

template <typename Lists>
void sort_out(Lists& all) {
  for (std::vector<int>& phases : all) {
    std::sort(phases.begin(), phases.end());
    phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  }
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
      reported_(program.registers.size()) {
  const size_t devices = to_size(program.mesh.devices());
  run_.registers.resize(program.registers.size());
  run_.flops.resize(devices);
  run_.sent.assign(program.instructions.size(), std::vector<int64_t>(devices));
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
    if (lives_.rematerialised[result]) rematerialised_.push_back(result);
    if (on_result_) on_result_(at, run_.registers[result]);
    for (const RegisterId number : at.operands) {
      if (!options_.retain_registers && lives_.last_read[number] <= next_) {
        run_.registers[number].clear();
      }
    }
  }
  if (phase == lives_.phases - 1) {
    for (const RegisterId number : program_.outputs) tensors(number);
  }
  if (options_.retain_registers) return;
  std::erase_if(rematerialised_, [&](RegisterId number) {
    if (is_needed_soon(lives_.reads[number], phase)) return false;
    run_.registers[number].clear();
    return true;
  });
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
    if (options_.retain_registers) {
      if (lives_.maker[r]) tensors(r);
    } else if (program_.instructions.has(lives_.last_read[r])) {
      run_.registers[r].clear();  // it is no output
    }
  }
  return std::move(run_);
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
      const RegisterId from = at.operands[0];
      DeviceTensors operand = tensors(from);
      if (!options_.retain_registers && lives_.last_read[from] <= number) {
        run_.registers[from].clear();
      }
      const TransferTypes types = transfer_types(at, types_, precision_);
      if (at.collective == CollectiveKind::Permute) {
        return permute(permute_sources(program_, at), operand, types.sent,
                       sent);
      }
      DeviceTensors result = run_collective(
          program_.mesh, at, std::move(operand), types, options_.threads, sent);
      if (at.collective == CollectiveKind::AllGather) {
        const int64_t rows =
            nth(program_.registers[at.result].local_shape, at.dim);
        // Removes the padding of shards, which ends the gathered dimension.
        for (Tensor& all : result) {
          if (nth(all.shape, at.dim) > rows) all = slice(all, at.dim, 0, rows);
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
  const Mesh& mesh = program_.mesh;
  return on_each_device(mesh.devices(), options_.threads, [&](int64_t device) {
    return shard_of(mesh, made.layout, whole, device);
  });
}

DeviceTensors ShardedRun::cut(const Instruction& at) {
  const DeviceTensors& from = tensors(at.operands[0]);
  const Mesh& mesh = program_.mesh;
  const int64_t parts = shard_count(mesh, at.axes);
  return on_each_device(mesh.devices(), options_.threads, [&](int64_t device) {
    const Tensor& whole = nth(from, device);
    const int64_t index = shard_index(mesh, at.axes, mesh.coordinates(device));
    const Slice part = part_of(nth(whole.shape, at.dim), index, parts);
    return slice(whole, at.dim, part.begin, part.end);
  });
}

DeviceTensors ShardedRun::compute(const Instruction& at,
                                  std::vector<int64_t>& sent) {
  std::vector<DevicePart> parts;
  const Mesh& mesh = program_.mesh;
  const GraphNode& node = program_.graph->nodes[at.node];
  // Few devices leave threads for the operation itself.
  const int inner = mesh.devices() >= options_.threads ? 1 : options_.threads;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    DevicePart& part = parts.emplace_back();
    for (const RegisterId number : at.operands) {
      part.operands.push_back(nth(tensors(number), device));
    }
    part.context = {options_.arithmetic, &node.rule,
                    range_of(mesh, node.rule, at.factor_axes, device), inner};
  }
  if (at.overlap != Overlap::Off) {
    return run_overlapped(mesh, at, node, parts,
                          transfer_types(at, types_, precision_),
                          options_.threads, run_.flops, sent);
  }
  const Storage as = types_[at.result];
  // Products with one weight are computed together, but each counts separately.
  std::vector<Tensor> together;
  if (node.op->run_all != nullptr && !node.shard_map) {
    together = node.op->run_all(parts, node.attributes, options_.threads);
  }
  return on_each_device(mesh.devices(), options_.threads, [&](int64_t device) {
    DevicePart& part = nth(parts, device);
    int64_t& flops = nth(run_.flops, device);
    Tensor result;
    if (together.empty()) {
      result = run_part(node, part, flops);
    } else {
      result = std::exchange(nth(together, device), {});
      flops += node.op->flops(shapes_of(part.operands), result.shape,
                              node.attributes);
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
        at.kind != Instruction::Kind::Compute && !reduces(at) &&
        std::ranges::all_of(at.operands, [&](RegisterId number) {
          return lives.rematerialised[number];
        });
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
