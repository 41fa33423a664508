// SPDX-License-Identifier: Apache-2.0
// Products interleaved with their collective: chunks are multiplied as they
// arrive, or just before they are sent, in the orders and associations of
// xlstm's async_gather and async_scatter.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/part.h"
#include "sim/transfers.h"

namespace shardplan {

// `parts`: what every device has, where the overlapped operand is not gathered
// yet. Chunks of one product that end in the same sum on a device are added up
// as the product adds up its terms, in float32; sums that travel are rounded
// (sim/transfers.h). REQUIRES: the node is an einsum.
DeviceTensors run_overlapped(const Mesh& mesh, const Instruction& instruction,
                             const GraphNode& node,
                             std::vector<DevicePart>& parts,
                             const TransferTypes& types, int threads,
                             std::vector<int64_t>& flops,
                             std::vector<int64_t>& sent);

// The rows of a gathered dimension in the order in which rank `rank` of `count`
// multiplies them, `size` in all: its own first, then those of rank - 1, ..;
// split: the first halves so, then the second halves of rank, rank + 1, ..
std::vector<Slice> arrival_order(Overlap overlap, int64_t rank, int64_t count,
                                 int64_t size);

}  // namespace shardplan
