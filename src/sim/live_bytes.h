// SPDX-License-Identifier: Apache-2.0
// LiveBytes: what the values take that are alive in a sharded run, as it runs.
//
// Counted is what operations make of inputs: tensors that a device really has,
// from when it has them to when nobody reads them any more, each storage once
// (graph/op.h). Inputs, parameters and what is made of parameters alone
// are not counted. How the simulator itself holds them is another matter:
// buffers that are used again, taken over or made anew change nothing here.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

class LiveBytes {
 public:
  // `types`: register_types() of the program, which must outlive it.
  LiveBytes(const Program& program, std::vector<Storage> types);

  // An instruction has run; what every device has of its result.
  void made(const Instruction& at, const DeviceTensors& result);
  // Nobody reads a register any more.
  void over(int number);
  // Per device.
  const std::vector<int64_t>& bytes() const { return bytes_; }

 private:
  bool counts(int number) const;

  const Program& program_;
  std::vector<Storage> types_;
  std::vector<int> root_;     // per register: whose storage it has; -1: none
  std::vector<int> holders_;  // per register: how many have its storage
  std::vector<std::vector<int64_t>> sizes_;  // per root, per device
  std::vector<int64_t> bytes_;
};

}  // namespace shardplan
