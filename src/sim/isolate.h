// SPDX-License-Identifier: Apache-2.0
// One operation of a program by itself, on inputs of its own: where errors of
// the operations before it cannot reach, or cancel.
#pragma once

#include <memory>

#include "spmd/partition.h"
#include "spmd/program.h"

namespace shardplan {

struct Isolated {
  std::unique_ptr<Graph> graph;  // one node; values: operands, then the result
  std::vector<int> operands;     // the same values in the whole graph
  Program program;
};

// Operands and result lie as in the whole program, but for partial sums. A
// later step of what is one shard_map in the file loses it.
Isolated isolate(const Program& program, int node,
                 const PartitionOptions& options);

}  // namespace shardplan
