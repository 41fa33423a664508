// SPDX-License-Identifier: Apache-2.0
// DevicePart: what one device computes of an operation.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "spmd/factors.h"

namespace shardplan {

struct DevicePart {
  std::vector<Tensor> operands;  // local
  RunContext context;
};

// The range of every factor that a device computes.
LocalRange range_of(const Mesh& mesh, const ShardingRule& rule,
                    const FactorAxes& axes, int64_t device);

// Runs it and adds its floating-point operations to `flops`. Under shard_map
// the operands are all there is to it (spmd/shard_mapped.h), but for the rows
// of an embedding, which know their numbers (Megatron-LM's
// VocabParallelEmbedding). There, an operand that could not be cut evenly is
// whole: of `size` rows, a device takes `size / devices`.
Tensor run_part(const GraphNode& node, const DevicePart& part, int64_t& flops);

}  // namespace shardplan
