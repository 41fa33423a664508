// SPDX-License-Identifier: Apache-2.0
// Runs a program on simulated devices: every device computes its own part, also
// where others compute the same, and gets what it lacks by collectives alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/evaluate.h"
#include "graph/tensor.h"
#include "sim/lifetimes.h"
#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

struct Execution {
  // Per register, per device; released after its last use unless all are kept.
  std::vector<DeviceTensors> registers;
  std::vector<int64_t> flops;  // per device
  // Bytes that every device sends, per instruction.
  std::vector<std::vector<int64_t>> sent;

  int64_t bytes_moved() const;
};

struct ExecuteOptions {
  Arithmetic arithmetic = Arithmetic::F32;
  int threads = 1;
  bool keep_registers = false;
  // See sim/precision.h.
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
};

// A run, stretch after stretch (sim/lifetimes.h). Parameters are not copied:
// shards are views.
class ShardedRun {
 public:
  // Told of what an instruction made, of a Compute while its operands are still
  // there; may put something else in its place. What is made again is not told
  // again.
  using Made = std::function<void(const Instruction&, DeviceTensors&)>;

  // REQUIRES: program and lifetimes outlive the run; what is read is rounded as
  // it is stored.
  ShardedRun(const Program& program, const Lifetimes& lives, ReadWhole read,
             const ExecuteOptions& options);

  // Runs the instructions of a stretch. REQUIRES: those of all before have run.
  void advance(int stretch, const Made& made = {});
  // What the devices have of a register. REQUIRES: it was made, and is read by
  // an instruction that comes next.
  const DeviceTensors& tensors(int number);
  // Outputs, and all registers where they are kept. REQUIRES: all has run.
  Execution finish();

 private:
  bool is_over(int number, size_t instruction) const;
  DeviceTensors step(size_t number, std::vector<int64_t>& sent);
  DeviceTensors load(const Instruction& at) const;
  bool is_large_gather(const Instruction& at);
  DeviceTensors gather_weight(const Instruction& at,
                              std::vector<int64_t>& sent);
  DeviceTensors cut(const Instruction& at);
  DeviceTensors compute(const Instruction& at, std::vector<int64_t>& sent);
  DeviceTensors each_device(const std::function<Tensor(size_t)>& work) const;
  void release(int number);

  const Program& program_;
  const Lifetimes& lives_;
  ReadWhole read_;
  ExecuteOptions options_;
  KeptTypes precision_;
  std::vector<Storage> types_;  // per register
  Made made_ = {};
  size_t next_ = 0;              // instruction
  std::vector<bool> told_;       // per register
  std::vector<int> made_again_;  // registers that are held though they need not
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
