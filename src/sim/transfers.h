// SPDX-License-Identifier: Apache-2.0
// Collectives on the tensors of simulated devices: bytes really move, step by
// step as the schedule says, and are counted where they are copied.
//
// Bytes are those of 4-byte elements, also where the run itself computes in
// doubles: a run is about float32 numbers, however exactly it is checked.
#pragma once

#include <cstdint>
#include <vector>

#include "core/mesh.h"
#include "graph/tensor.h"
#include "spmd/program.h"

namespace shardplan {

inline constexpr int64_t kElementBytes = 4;

using DeviceTensors = std::vector<Tensor>;  // per device

// What every device has after a collective instruction; `sent` grows by the
// bytes that every device sends. Sums are made in the operand itself where
// nobody else holds it.
DeviceTensors run_collective(const Mesh& mesh, const Instruction& instruction,
                             DeviceTensors operand, Arithmetic arithmetic,
                             int threads, std::vector<int64_t>& sent);

// The same for one group, whose devices stand in order of rank.
// all-gather: dimension `dim` of the result is put together of all parts.
std::vector<Tensor> gather(const Algorithm& algorithm, const Ranks& ranks,
                           int dim, const std::vector<Tensor>& parts,
                           int threads, std::vector<int64_t>& sent);
// reduce-scatter: rank r keeps part r of the sum along `dim`.
std::vector<Tensor> scatter(const Algorithm& algorithm, const Ranks& ranks,
                            int dim, std::vector<Tensor> terms,
                            Reduction reduction, Arithmetic arithmetic,
                            int threads, std::vector<int64_t>& sent);

// Part `index` of `count` of `size` rows, in pieces as even as integers allow.
Slice part_of(int64_t size, int64_t index, int64_t count);

}  // namespace shardplan
