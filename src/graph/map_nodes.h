// SPDX-License-Identifier: Apache-2.0
// An operation's shard_map in a graph file, given to the nodes that it became.
#pragma once

#include <cstddef>
#include <vector>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "graph/graph.h"

namespace shardplan {

// Whether the operation may have the shard_map that it has, if any: one spec
// per operand, and something to compute. `mappable`: it is one operation, or a
// composite that may stand there (graph/composites.h). Else SP015.
bool may_be_mapped(const DescribedOp& op, bool mappable, Diagnostics& diags);

// Gives it to the nodes from number `first` on. Every one of them leaves what
// the out spec and `psum` say; an operand that none of the `operands` of the
// file is comes from the node before. SP015 where a spec is longer than a rank
// or names an axis twice.
bool map_nodes(Graph& graph, size_t first, const DescribedOp& op,
               const std::vector<int>& operands, Diagnostics& diags);

}  // namespace shardplan
