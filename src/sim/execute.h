// SPDX-License-Identifier: Apache-2.0
// How long a run needs what it holds.
//
// Sharded and unsharded runs of a graph advance together, in phases: phase
// n is node n of the graph, and of the program everything since the computing
// of node n - 1 up to that of node n. Behind the last node there is one more
// phase, in which outputs are put into their layouts.
//
// Loads have no phase: what they load is there when it is read. What is made
// of inputs and parameters by loads, slices and gathers alone is not kept from
// one use to a far one, but rematerialised, as a device would not do: it keeps
// that the memory of the whole run does not hold all weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"
#include "sim/live_bytes.h"
#include "sim/transfers.h"
#include "spmd/layout.h"
#include "spmd/program.h"

namespace shardplan {

struct Lifetimes {
  int phases = 0;             // of the whole run
  PerInstruction<int> phase;  // -1 of a load
  PerRegister<InstructionId> maker;
  PerRegister<bool> rematerialised;
  PerRegister<std::vector<int>> reads;   // phases, ascending
  PerRegister<InstructionId> last_read;  // of an output, behind the last one
  PerValue<std::vector<int>> needed;     // phases in which the whole is
};
// REQUIRES: a register is the result of one instruction.
Lifetimes lifetimes_of(const Program& program);

// Whether something needed in these phases is worth keeping after one of
// them: until it is needed next, few others pass.
bool is_needed_soon(const std::vector<int>& phases, int after);
bool is_needed_later(const std::vector<int>& phases, int after);

// The range of every factor that a device computes.
LocalRange range_of(const Mesh& mesh, const ShardingRule& rule,
                    const FactorAxes& axes, int64_t device);

// Runs it and adds its floating-point operations to `flops`. Under shard_map
// the operands are all there is to it (spmd/shard_mapped.h), but for the rows
// of an embedding, which know their numbers (Megatron-LM's
// VocabParallelEmbedding). There, an operand that could not be cut evenly is
// whole: of `size` rows, a device takes `size / devices`.
Tensor run_part(const GraphNode& node, const DevicePart& part, int64_t& flops);

// Products interleaved with their collective: chunks are multiplied as they
// arrive, or just before they are sent, in the orders and associations of
// xlstm's async_gather and async_scatter.

// `parts`: what every device has, where the overlapped operand is not gathered
// yet. Chunks of one product that end in the same sum on a device are added up
// as the product adds up its terms, in float32; sums that travel are rounded
// (sim/transfers.h). REQUIRES: the node is an einsum.
DeviceTensors run_overlapped(const Mesh& mesh, const Instruction& instruction,
                             const GraphNode& node,
                             std::vector<DevicePart>& parts,
                             const TransferTypes& types, int threads,
                             std::vector<int64_t>& flops,
                             std::vector<int64_t>& sent);

// The rows of a gathered dimension in the order in which rank `rank` of `count`
// multiplies them, `size` in all: its own first, then those of rank - 1, ..;
// split: the first halves so, then the second halves of rank, rank + 1, ..
std::vector<Slice> arrival_order(Overlap overlap, int64_t rank, int64_t count,
                                 int64_t size);

// Runs a program on simulated devices: every device computes its own part, also
// where others compute the same, and gets what it lacks by collectives alone.

struct Execution {
  // Per register, per device; released after its last use unless all are kept.
  PerRegister<DeviceTensors> registers;
  std::vector<int64_t> flops;  // per device
  // Bytes that every device sends.
  PerInstruction<std::vector<int64_t>> sent;
  // Bytes that are alive on every device (sim/live_bytes.h) once an instruction
  // has run and before what it read last is let go of; of a Load, none. Only
  // where they are counted.
  PerInstruction<std::vector<int64_t>> live;

  int64_t bytes_moved() const;
};

struct ExecuteOptions {
  Arithmetic arithmetic = Arithmetic::F32;
  int threads = 1;
  bool keep_registers = false;
  // See sim/transfers.h.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
  bool counts_live = false;  // Execution::live
};

// A run, phase after phase (sim/execute.h). Parameters are not copied:
// shards are views.
class ShardedRun {
 public:
  // Called with what an instruction made, of a Compute while its operands are
  // still there; may put something else in its place. What is rematerialised is
  // not reported again.
  using Made = std::function<void(const Instruction&, DeviceTensors&)>;

  // REQUIRES: program and lifetimes outlive the run; what is read is rounded as
  // it is stored.
  ShardedRun(const Program& program, const Lifetimes& lives, ReadWhole read,
             const ExecuteOptions& options);

  // Runs the instructions of a phase. REQUIRES: those of all before have run.
  void advance(int phase, const Made& made = {});
  // What the devices have of a register. REQUIRES: it was made, and is read by
  // an instruction that comes next.
  const DeviceTensors& tensors(RegisterId number);
  // Outputs, and all registers where they are kept. REQUIRES: all has run.
  Execution finish();

 private:
  void count_live(InstructionId instruction);
  bool is_last_read(RegisterId number, InstructionId instruction) const;
  bool is_over(RegisterId number, InstructionId instruction) const;
  DeviceTensors step(InstructionId number, std::vector<int64_t>& sent);
  DeviceTensors load(const Instruction& at) const;
  DeviceTensors cut(const Instruction& at);
  DeviceTensors compute(const Instruction& at, std::vector<int64_t>& sent);
  DeviceTensors each_device(const std::function<Tensor(size_t)>& work) const;
  void release(RegisterId number);

  const Program& program_;
  const Lifetimes& lives_;
  ReadWhole read_;
  ExecuteOptions options_;
  KeptTypes precision_;
  PerRegister<Storage> types_;
  LiveBytes live_;
  Made made_ = {};
  InstructionId next_ = InstructionId(0);
  PerRegister<bool> told_;
  // That are held though they need not be.
  std::vector<RegisterId> rematerialised_;
  Execution run_;
};

// `values`: the whole inputs and parameters, by number of the graph's values;
// others are not read. They are rounded as they are stored.
Execution execute(const Program& program, std::span<const Tensor> values,
                  const ExecuteOptions& options);

// The part of a whole tensor that a device has under a layout without partial
// sums; a view.
Tensor shard_of(const Mesh& mesh, const Layout& layout, const Tensor& whole,
                int64_t device);

// The whole, put together of what the devices have. REQUIRES: no partial sums.
Tensor assemble(const Mesh& mesh, const Layout& layout, const Shape& shape,
                const DeviceTensors& parts);

}  // namespace shardplan
