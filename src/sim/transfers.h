// SPDX-License-Identifier: Apache-2.0
// Collectives on the tensors of simulated devices: bytes really move, step by
// step as the schedule says, and are counted where they are copied.
//
// Bytes are those of the type that is sent (sim/price.h), also where the
// run itself computes in doubles: a run is about numbers of that type, however
// exactly it is checked. Of a sum, the terms and every addition on the way are
// rounded to it, in the order of the schedule; the result to its own.
#pragma once

#include <cstdint>
#include <vector>

#include "core/mesh.h"
#include "graph/tensor.h"
#include "sim/price.h"
#include "spmd/program.h"

namespace shardplan {

using DeviceTensors = std::vector<Tensor>;  // per device

// What every device has after a collective instruction; `sent` grows by the
// bytes that every device sends. Sums are made in the operand itself where
// nobody else holds it.
DeviceTensors run_collective(const Mesh& mesh, const Instruction& instruction,
                             DeviceTensors operand, const TransferTypes& types,
                             int threads, std::vector<int64_t>& sent);

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
