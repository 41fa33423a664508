// SPDX-License-Identifier: Apache-2.0
// In which types a run keeps its numbers.
//
// A value is kept in the storage type; partial sums, which devices add up
// later, in the reduce type, as the buffers of a collective have one type.
// Maxima are exact in any type and are kept as other values are. Only runs in
// float32 round: doubles and residues are kept as they are, and counted as if
// they had been rounded.
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

struct KeptTypes {
  Arithmetic arithmetic = Arithmetic::F32;
  Storage storage = Storage::F32;
  Storage reduce = Storage::F32;
};

// Per register. Integers (graph/graph.h) are not rounded, and take 4 bytes.
PerRegister<Storage> register_types(const Program& program,
                                    const KeptTypes& precision);

// Rounds in place, in runs that round.
void keep(const Tensor& tensor, Arithmetic arithmetic, Storage as,
          int threads = 1);
// What is kept of a tensor that was loaded or computed from `operands`: itself
// where nobody else holds its numbers, else a copy. A view of an operand has
// been rounded with it.
Tensor kept(const Tensor& tensor, std::span<const Tensor> operands,
            Arithmetic arithmetic, Storage as, int threads = 1);

// The types of a collective, or of a product that is joined with one.
struct TransferTypes {
  Arithmetic arithmetic = Arithmetic::F32;
  Storage sent = Storage::F32;    // of what is sent; sums are rounded to it
  Storage result = Storage::F32;  // of what is left where it ends
};
// `registers`: register_types() of its program.
TransferTypes transfer_types(const Instruction& at,
                             const PerRegister<Storage>& registers,
                             const KeptTypes& precision);

// What the collectives of a program cost, by closed forms: nothing is executed,
// and no schedule is made.

struct CollectivePrice {
  InstructionId instruction;
  CollectiveKind kind = CollectiveKind::AllGather;
  AxisNames axes;  // as reports name them (reported_axes)
  std::string algorithm;
  Int128 bytes = 0;  // over all devices
  Cause cause = Cause::Implicit;
};

// One per instruction that moves bytes, overlapped products included, of
// numbers of the types that a run keeps them in (sim/transfers.h). REQUIRES:
// the elements of every register fit 63 bits, as those of its value do.
std::vector<CollectivePrice> price(const Program& program, Storage storage,
                                   Storage reduce);

// Collectives on the tensors of simulated devices: what every device gets is
// what the schedule delivers, and bytes are counted transfer by transfer. Where
// the schedule delivers the same to all devices of a group, they share it
// (sim/delivery.h): a device that writes makes a copy first.
//
// Bytes are those of the type that is sent (sim/transfers.h), also where the
// run itself computes in doubles: a run is about numbers of that type, however
// exactly it is checked. Of a sum, the terms and every addition on the way are
// rounded to it, in the order of the schedule; the result to its own.

using DeviceTensors = std::vector<Tensor>;  // per device

// What every device has after a collective instruction; `sent` grows by the
// bytes that every device sends. Sums are made in the operand itself where
// nobody else holds it. Devices may share what they get, and a gathered value
// may be a view of what it is gathered from. REQUIRES: it is no permute.
DeviceTensors run_collective(const Mesh& mesh, const Instruction& instruction,
                             DeviceTensors operand, const TransferTypes& types,
                             int threads, std::vector<int64_t>& sent);

// What every device has after a permute: the operand of its source.
DeviceTensors permute(const std::vector<int>& sources,
                      const DeviceTensors& operand, Storage type,
                      std::vector<int64_t>& sent);

// The same for one group, whose devices stand in order of rank.
// all-gather: dimension `dim` of the result is put together of all parts.
std::vector<Tensor> gather(const Algorithm& algorithm, const Ranks& ranks,
                           int dim, const std::vector<Tensor>& parts,
                           const TransferTypes& types, int threads,
                           std::vector<int64_t>& sent);
// reduce-scatter: rank r keeps part r of the sum along `dim`.
std::vector<Tensor> scatter(const Algorithm& algorithm, const Ranks& ranks,
                            int dim, std::vector<Tensor> terms,
                            Reduction reduction, const TransferTypes& types,
                            int threads, std::vector<int64_t>& sent);

// Part `index` of `count` of `size` rows, in pieces as even as integers allow.
Slice part_of(int64_t size, int64_t index, int64_t count);

}  // namespace shardplan
