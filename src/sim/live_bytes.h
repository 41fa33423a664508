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
  LiveBytes(const Program& program, PerRegister<Storage> types);

  // An instruction has run; what every device has of its result.
  void made(const Instruction& at, const DeviceTensors& result);
  // Nobody reads a register any more.
  void over(RegisterId number);
  // Per device.
  const std::vector<int64_t>& bytes() const { return bytes_; }

 private:
  bool counts(RegisterId number) const;

  const Program& program_;
  PerRegister<Storage> types_;
  PerRegister<RegisterId> root_;             // whose storage it has, if any's
  PerRegister<int> holders_;                 // how many have its storage
  PerRegister<std::vector<int64_t>> sizes_;  // of roots, per device
  std::vector<int64_t> bytes_;
};

}  // namespace shardplan
