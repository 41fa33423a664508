// SPDX-License-Identifier: Apache-2.0
// Which axes shard which factor of one operation.
//
// Every assignment that operands, or what is wanted of the result, suggest is
// weighed: the bytes that reshard the operands and settle the result, then the
// number of steps that this takes before the operation, slices among them so
// that nothing is cut before someone needs it, then the operations of one
// device.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "spmd/factors.h"
#include "spmd/layout.h"
#include "spmd/reshard.h"

namespace shardplan {

struct OperandChoice {
  const Shape* shape = nullptr;
  std::vector<Layout> available;  // the first is the value's own
  // Dimensions that are a batch whose axes stay, whatever they also shard; all
  // false where the operation has no weight and does not keep batches.
  std::vector<bool> batch;
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
