// SPDX-License-Identifier: Apache-2.0
// graph x plan -> Program: propagate, choose, reshard, emit.
//
// Written once for all operations, from their factors. Every node takes the
// assignment of axes to factors that moves the fewest bytes, then computes the
// least; what an operand lacks is resharded (spmd/reshard.h), partial sums are
// kept until someone needs them, and an axis that shards the batch of an
// activation gathers a weight that it shards otherwise (FSDP).
#pragma once

#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "spmd/program.h"

namespace shardplan {

struct PartitionOptions {
  Overlap overlap = Overlap::Off;
  const Algorithm* algorithm = nullptr;  // wished for; else the table's first
};

// Where every value of the graph is to lie, as far as that is said: inputs and
// parameters must have one, results may.
using WantedLayouts = std::vector<std::optional<Layout>>;

Program partition(const Graph& graph, const Mesh& mesh,
                  const WantedLayouts& wanted, const PartitionOptions& options);

}  // namespace shardplan
