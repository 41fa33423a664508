// SPDX-License-Identifier: Apache-2.0
// LiveBytes: the bytes of the values that are live in a sharded run, as it
// runs.
//
// It counts what operations compute from inputs: tensors that a real device
// would have, from when it has them until nothing reads them any more, each
// storage once (graph/op.h). Inputs, parameters and values made of parameters
// alone are not counted. The memory of the simulator itself does not matter:
// buffers that it reuses, takes over or recomputes change nothing here.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/transfers.h"
#include "spmd/program.h"

namespace shardplan {

class LiveBytes {
 public:
  // `types` is register_types() of the program, and the program must outlive
  // this object.
  LiveBytes(const Program& program, PerRegister<Storage> types);

  // Adds the result of an instruction that has run, as every device has it.
  void made(const Instruction& at, const DeviceTensors& result);
  // Drops a register that nothing reads any more.
  void over(RegisterId number);
  // Returns the live bytes per device.
  const std::vector<int64_t>& bytes() const { return bytes_; }

 private:
  bool counts(RegisterId number) const;

  const Program& program_;
  PerRegister<Storage> types_;
  PerRegister<RegisterId> root_;             // owner of its storage, if counted
  PerRegister<int> holders_;                 // registers that share the storage
  PerRegister<std::vector<int64_t>> sizes_;  // bytes of roots, per device
  std::vector<int64_t> bytes_;
};

}  // namespace shardplan
