// SPDX-License-Identifier: Apache-2.0
// Execution: runs a program on simulated devices. Every device computes its own
// part, even where others compute the same, and obtains what it lacks through
// collectives alone.
//
// Sharded and unsharded runs of a graph advance together, in phases. Phase n
// computes node n of the graph; in the program it covers everything after the
// computation of node n - 1, up to and including that of node n. One more phase
// follows the last node and brings outputs into their layouts.
//
// Loads have no phase: what they load is there when it is read. A register that
// is made from inputs and parameters by loads, slices and gathers alone is not
// held until a distant use but rematerialised. A real device would hold it;
// rematerialising keeps the run from holding all weights in memory at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"
#include "sim/transfers.h"
#include "spmd/layout.h"
#include "spmd/program.h"

namespace shardplan {

struct Lifetimes;

struct Execution {
  // Tensors per register and device. A register is released after its last use
  // unless ExecuteOptions::retain_registers is set.
  PerRegister<DeviceTensors> registers;
  std::vector<int64_t> flops;  // per device
  // Bytes that each device sends.
  PerInstruction<std::vector<int64_t>> sent;

  int64_t bytes_moved() const;
};

struct ExecuteOptions {
  Arithmetic arithmetic = Arithmetic::F32;
  int threads = 1;
  bool retain_registers = false;
  // The types of sim/transfers.h.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
};

// ShardedRun: the sharded run of a program, phase after phase. Parameters are
// not copied: shards are views.
class ShardedRun {
 public:
  // Called with the result of an instruction, which it may replace. The
  // operands of a Compute are still there at that time. It is not called again
  // when a result is rematerialised.
  using OnResult = std::function<void(const Instruction&, DeviceTensors&)>;

  // REQUIRES: `program` and `lives` outlive the run; `read` returns values that
  // are rounded as they are stored.
  ShardedRun(const Program& program, const Lifetimes& lives, ReadWhole read,
             const ExecuteOptions& options);

  // Runs the instructions of a phase. REQUIRES: all earlier phases have run.
  void advance(int phase, const OnResult& on_result = {});
  // Returns what the devices hold of a register. REQUIRES: it has been made,
  // and an instruction that has not run yet reads it.
  const DeviceTensors& tensors(RegisterId number);
  // Returns the outputs, or all registers with
  // ExecuteOptions::retain_registers. REQUIRES: all phases have run.
  Execution finish();

 private:
  DeviceTensors step(InstructionId number, std::vector<int64_t>& sent);
  DeviceTensors load(const Instruction& at) const;
  DeviceTensors cut(const Instruction& at);
  DeviceTensors compute(const Instruction& at, std::vector<int64_t>& sent);

  const Program& program_;
  const Lifetimes& lives_;
  ReadWhole read_;
  ExecuteOptions options_;
  StorageTypes precision_;
  PerRegister<Storage> types_;
  OnResult on_result_ = {};
  InstructionId next_ = InstructionId(0);
  PerRegister<bool> reported_;
  // Rematerialised registers that are held at present.
  std::vector<RegisterId> rematerialised_;
  Execution run_;
};

// Runs a whole program. `values` holds the whole inputs and parameters, indexed
// by value of the graph; other entries are not read. They are rounded as they
// are stored.
Execution execute(const Program& program, std::span<const Tensor> values,
                  const ExecuteOptions& options);

// Returns the part of a whole tensor that a device has under a layout without
// partial sums: a view, or a copy where the part is padded.
Tensor shard_of(const Mesh& mesh, const Layout& layout, const Tensor& whole,
                int64_t device);

// Returns the whole tensor that the devices' parts make up. REQUIRES: there are
// no partial sums.
Tensor assemble(const Mesh& mesh, const Layout& layout, const Shape& shape,
                const DeviceTensors& parts);

// How long a run needs what it holds.
struct Lifetimes {
  int phases = 0;             // in the whole run
  PerInstruction<int> phase;  // -1 for a Load
  PerRegister<InstructionId> maker;
  PerRegister<bool> rematerialised;
  PerRegister<std::vector<int>> reads;   // phases, ascending
  PerRegister<InstructionId> last_read;  // outputs: one past the last one
  PerValue<std::vector<int>> needed;     // phases that need the whole value
};
// Returns the lifetimes of a program's registers and values. REQUIRES: every
// register is the result of one instruction.
Lifetimes lifetimes_of(const Program& program);

// is_needed_soon() returns whether something needed in `phases` is needed again
// within a few phases after `after`, so that it is worth holding.
// is_needed_later() returns whether it is needed again at all.
bool is_needed_soon(const std::vector<int>& phases, int after);
bool is_needed_later(const std::vector<int>& phases, int after);

// Returns the range of every factor that a device computes.
LocalRange range_of(const Mesh& mesh, const ShardingRule& rule,
                    const FactorAxes& axes, int64_t device);

// Runs a device's part of a node and adds its floating-point operations to
// `flops`. Under shard_map the operation sees only its local operands
// (spmd/shard_mapped.h), except that a lookup knows which rows of the whole
// embedding it has (Megatron-LM's VocabParallelEmbedding). There, an operand
// that does not divide evenly arrives whole; of its `size` rows, a device uses
// `size / devices`.
Tensor run_part(const GraphNode& node, const DevicePart& part, int64_t& flops);

// Products interleaved with their collective: each chunk is multiplied when it
// arrives, or just before it is sent, in the orders and associations of xlstm's
// async_gather and async_scatter.

// Returns the rows of a gathered dimension of `size` rows in the order in which
// rank `rank` of `count` multiplies them: its own first, then those of
// rank - 1, and so on. With Overlap::Split these are first halves, followed by
// the second halves of rank, rank + 1, and so on.
std::vector<Slice> arrival_order(Overlap overlap, int64_t rank, int64_t count,
                                 int64_t size);

}  // namespace shardplan
