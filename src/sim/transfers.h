// SPDX-License-Identifier: Apache-2.0
// Transfers: collectives on the tensors of simulated devices, and the types in
// which a run stores and sends numbers.
//
// Values are stored in the storage type. Partial sums, which devices add up
// later, are stored in the reduce type, because the buffers of a collective
// have one type. Maxima are exact in any type and are stored as other values
// are. Only runs in float32 round: doubles and residues stay as they are, but
// their bytes are counted as if they were rounded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "core/mesh.h"
#include "graph/elementwise.h"
#include "graph/tensor.h"
#include "spmd/program.h"

namespace shardplan {

struct StorageTypes {
  Arithmetic arithmetic = Arithmetic::F32;
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
};

// Returns the storage type of every register. Integers (graph/graph.h) are not
// rounded and count 4 bytes each.
PerRegister<Storage> register_types(const Program& program,
                                    const StorageTypes& precision);

// Rounds a tensor in place, in runs that round.
void round_in_place(const Tensor& tensor, Arithmetic arithmetic, Storage as,
                    int threads = 1);
// Returns what a run stores of a tensor that was loaded or computed from
// `operands`: the tensor itself, rounded in place, if no one else holds its
// numbers, otherwise a rounded copy. A view of an operand was rounded with the
// operand.
Tensor stored_result(const Tensor& tensor, std::span<const Tensor> operands,
                     Arithmetic arithmetic, Storage as, int threads = 1);

// The types of a collective, or of a product that is joined with one.
struct TransferTypes {
  Arithmetic arithmetic = Arithmetic::F32;
  Storage sent = Storage::F32;    // type of sent numbers; sums are rounded to
                                  // it
  Storage result = Storage::F32;  // type of the numbers at the end
};
// Returns the types of an instruction. `registers` is register_types() of its
// program.
TransferTypes transfer_types(const Instruction& at,
                             const PerRegister<Storage>& registers,
                             const StorageTypes& precision);

// Returns whether an instruction is a collective that combines numbers, rather
// than moving them.
bool reduces(const Instruction& at);

// CollectivePrice: what the collectives of a program cost, by closed forms.
// Nothing is executed, and no schedule is made.

struct CollectivePrice {
  InstructionId instruction;
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;  // named as in reports (reported_axes)
  std::string algorithm;
  Int128 bytes = 0;  // over all devices
  Cause cause = Cause::Implicit;
};

// Returns one price per instruction that moves bytes, overlapped products
// included, for numbers of the types in which a run stores them. REQUIRES: the
// number of elements of every register fits 63 bits, as that of its value does.
std::vector<CollectivePrice> price(const Program& program, Storage storage,
                                   Storage reduce);

// Collectives on the tensors of simulated devices. Every device gets what the
// schedule delivers, and bytes are counted transfer by transfer. If the
// schedule delivers the same to all devices of a group, they share it
// (sim/delivery.h), and a device that writes to it makes a copy first.
//
// Bytes are those of the type that is sent, even if the run itself computes in
// doubles: a run represents numbers of that type, however exactly it is
// checked. The terms of a sum and every addition on the way are rounded to that
// type, in the order of the schedule; the result is rounded to its own type.

using DeviceTensors = std::vector<Tensor>;  // per device

// Returns what every device has after a collective, which may be joined with a
// product, and adds the bytes that every device sends to `sent`. Sums are made
// in the operand itself if no one else holds it. Devices may share their
// results, and a gathered value may be a view of its parts. REQUIRES: the
// collective is not a permute.
DeviceTensors run_collective(const Mesh& mesh, const Instruction& instruction,
                             DeviceTensors operand, const TransferTypes& types,
                             int threads, std::vector<int64_t>& sent);

// Returns what every device has after a permute: the operand of its source.
DeviceTensors permute(const std::vector<int>& sources,
                      const DeviceTensors& operand, Storage type,
                      std::vector<int64_t>& sent);

// Returns part `index` of `size` rows cut into `count` parts as evenly as
// integers allow.
Slice part_of(int64_t size, int64_t index, int64_t count);

}  // namespace shardplan
