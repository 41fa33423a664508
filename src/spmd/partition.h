// SPDX-License-Identifier: Apache-2.0
// graph x plan -> Program: propagate, choose, reshard, emit.
//
// Written once for all operations, from their factors. Every node takes the
// assignment of axes to factors that moves the fewest bytes, then computes the
// least; what an operand lacks is resharded (spmd/layout.h), partial sums are
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
  // Layouts are those that hooks leave: what is resharded, their styles name.
  bool as_hooked = false;
};

// Where every value of the graph is to lie, as far as that is said: inputs and
// parameters must have one, results may.
using WantedLayouts = PerValue<std::optional<Layout>>;

Program partition(const Graph& graph, const Mesh& mesh,
                  const WantedLayouts& wanted, const PartitionOptions& options);

// Collective matmuls: products interleaved with the collective that feeds or
// drains them, a chunk at a time (Wang et al., "Overlap Communication with
// Dependent Computation via Decomposition", ASPLOS 2023; xlstm's TPAsyncDense).

// Joins every all-gather that only one einsum reads, and every reduce-scatter
// of sums that only an einsum feeds, with that einsum; an einsum is joined with
// one of them at most, its all-gather first. Off: changes nothing.
void overlap_products(Program& program, Overlap overlap);

// The algorithm whose transfers a form makes: "ring", "bidirectional-ring",
// "split-ring". REQUIRES: not Off.
const Algorithm& overlap_algorithm(Overlap overlap);

}  // namespace shardplan
