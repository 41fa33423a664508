// SPDX-License-Identifier: Apache-2.0
// partition(): turns a graph and the layouts of a plan into a Program, in four
// steps: propagate, choose, reshard, emit.
//
// It is written once for all operations, in terms of their factors. Every node
// gets the assignment of axes to factors that moves the fewest bytes, and among
// those the one that computes least. What an operand lacks is resharded
// (spmd/layout.h), and partial sums stay until an operation needs the sum. If
// an axis shards the batch of an activation and another dimension of a weight,
// the weight is gathered (FSDP).
#pragma once

#include <optional>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "spmd/program.h"

namespace shardplan {

struct PartitionOptions {
  Overlap overlap = Overlap::Off;
  const Algorithm* algorithm = nullptr;  // preferred; else the table's first
                                         // that fits
  // Layouts are those that hooks leave: every reshard is one that a style
  // names.
  bool hook_layouts = false;
};

// The layout that every value must have, if any. Inputs and parameters must
// have one; results may.
using WantedLayouts = PerValue<std::optional<Layout>>;

Program partition(const Graph& graph, const Mesh& mesh,
                  const WantedLayouts& wanted, const PartitionOptions& options);

// Returns the algorithm whose transfers an overlap makes: "ring",
// "bidirectional-ring" or "split-ring". REQUIRES: not Off.
const Algorithm& overlap_algorithm(Overlap overlap);

}  // namespace shardplan
