// SPDX-License-Identifier: Apache-2.0
// Runs a program on simulated devices: every device computes its own part, also
// where others compute the same, and gets what it lacks by collectives alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/tensor.h"
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

// `values`: the whole inputs and parameters, by number of the graph's values;
// others are not read. Parameters are not copied: shards are views.
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
