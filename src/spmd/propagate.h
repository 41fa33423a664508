// SPDX-License-Identifier: Apache-2.0
// What the declared layouts suggest for values that have none, and which
// dimensions are a batch.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {

// Shardings spread along factors, forwards and backwards, to dimensions that
// have none, as long as there is no conflict (GSPMD, Xu et al. 2021, section
// 3.5). `wanted` values keep theirs. The spec of a value has its rank.
PerValue<PartitionSpec> suggest(const Graph& graph, const Mesh& mesh,
                                const PerValue<std::optional<Layout>>& wanted);

// Per value and dimension: labelled BATCH or, of an input that has no labels,
// the first of two or more; and what follows from these through the factors of
// operations. Weights have none.
PerValue<std::vector<bool>> find_batch_dims(const Graph& graph);

// Which axes shard which factor of one operation.
//
// Every assignment that operands, or what is wanted of the result, suggest is
// weighed: the bytes that reshard the operands and settle the result, then the
// number of steps that this takes before the operation, slices among them so
// that nothing is cut before someone needs it, then the operations of one
// device.
//
// In a product with a weight, bytes do not decide what happens to the weight:
// with a larger batch the collectives would be others, and neither XLA nor
// Megatron changes them. An axis of the weight
// - that shards the batch gathers it (FSDP), and so does one that shards other
//   rows of the activation where it cuts what is summed over;
// - that shards the activation along the same dimension stays: row-parallel
//   products leave partial sums;
// - that the activation does not have stays as well.

struct OperandChoice {
  const Shape* shape = nullptr;
  std::vector<Layout> available;  // the first is the value's own
  // Dimensions that are a batch whose axes stay, whatever they also shard; all
  // false where the operation has no weight and does not keep batches.
  std::vector<bool> batch;
  bool is_weight = false;
};

struct NodeChoice {
  FactorAxes factors;
  std::vector<Layout> operands;  // as the operation reads them
  Layout result;                 // as it leaves it
  AxisNames batch_axes;          // that batch factors kept
};

// `wanted`: the layout that the result must have in the end; `suggested`: one
// that it may as well have.
NodeChoice choose(const Mesh& mesh, const GraphNode& node,
                  const std::vector<OperandChoice>& operands,
                  const Shape& result, const std::optional<Layout>& wanted,
                  const PartitionSpec& suggested, ReshardCache& reshards);

}  // namespace shardplan
