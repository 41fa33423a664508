// SPDX-License-Identifier: Apache-2.0
// Propagation: the layouts that declared ones suggest for other values, the
// dimensions that are a batch, and the axes that shard an operation's factors.
#pragma once

#include <optional>
#include <vector>

#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {

// Returns a spec per value, with an entry per dimension. Shardings spread along
// factors, forwards and backwards, to dimensions that have none, as long as
// there is no conflict (GSPMD, Xu et al. 2021, section 3.5). `wanted` values
// keep theirs.
PerValue<PartitionSpec> suggest(const Graph& graph, const Mesh& mesh,
                                const PerValue<std::optional<Layout>>& wanted);

// Returns, per value and dimension, whether it is a batch: it is labelled
// BATCH, it is the first of two or more dimensions of an input without labels,
// or it follows from such dimensions through the factors of operations. Weights
// have none.
PerValue<std::vector<bool>> find_batch_dims(const Graph& graph);

// NodeChoice: the axes that shard the factors of one operation.
//
// Every assignment that the operands, or the layout wanted for the result,
// suggest is weighed. What counts is, in this order: the bytes that reshard the
// operands and settle the result; the number of steps that this takes before
// the operation, slices included, so that nothing is cut before it is needed;
// the operations of one device; and the bytes of the result.
//
// In a product with a weight, bytes do not decide what happens to the weight: a
// larger batch would call for other collectives, and neither XLA nor Megatron
// switches to them. An axis of the weight
// - that shards the batch gathers the weight (FSDP), and so does one that
//   shards other rows of the activation and cuts what is summed over;
// - that shards the activation along the same dimension stays: row-parallel
//   products leave partial sums;
// - that the activation does not have stays as well.

struct OperandChoice {
  const Shape* shape = nullptr;
  std::vector<Layout> available;  // the first is the value's own
  // Dimensions that are a batch and keep their axes, whatever else these shard.
  // All are false if the operation has no weight and does not keep batches.
  std::vector<bool> batch;
  bool is_weight = false;
};

struct NodeChoice {
  FactorAxes factors;
  std::vector<Layout> operands;  // as the operation reads them
  Layout result;                 // as the operation leaves it
  AxisNames batch_axes;          // axes that batch factors keep
};

// Returns the best choice. `wanted` is the layout that the result must have in
// the end; `suggested` is one that it may as well have.
NodeChoice choose(const Mesh& mesh, const GraphNode& node,
                  const std::vector<OperandChoice>& operands,
                  const Shape& result, const std::optional<Layout>& wanted,
                  const PartitionSpec& suggested, ReshardCache& reshards);

}  // namespace shardplan
