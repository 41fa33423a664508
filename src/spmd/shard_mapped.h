// SPDX-License-Identifier: Apache-2.0
// Operations under shard_map (core/graph_description.h): every device applies
// the operation to its own shards as if they were all there is.
//
// Nothing is chosen here. The point is to find out what a device's code does
// with its shards, right or wrong. So the only requirements are that the
// operation accepts the shapes of the shards and gives the shape that the out
// spec declares. Rows that do not divide are cut as `size // devices` cuts
// them: the last ones are on no device.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {

// Returns the layout in which operand `index` is brought to the operation. A
// dimension that does not divide stays whole there, and the operation itself
// cuts it (sim/execute.h). REQUIRES, here and below: the node has a shard_map.
Layout mapped_operand(const Graph& graph, const Mesh& mesh,
                      const GraphNode& node, size_t index);
// Returns the layout of what the devices leave, before it is summed over
// `psum`.
Layout mapped_result(const Graph& graph, const Mesh& mesh,
                     const GraphNode& node);
// Returns the axes that in_specs give to every factor, even if they do not
// divide.
FactorAxes mapped_axes(const Mesh& mesh, const GraphNode& node);

// Returns the attributes as a device has them: `slice` reads the same part of
// the device's rows as of the whole. `local` holds the shapes of the device's
// operands. Returns nothing if the part is not a whole number of rows.
std::optional<Attributes> mapped_attributes(const GraphNode& node,
                                            std::span<const Shape> local);

// Returns whether every shard_map of the graph can run on the mesh. Reports
// SP015 if not, which includes an axis that neither the mesh nor `declared`
// has. Rows that are on no device are SP203.
bool check_shard_maps(const Graph& graph, const Mesh& mesh,
                      const AxisNames& declared, Diagnostics& diags);

}  // namespace shardplan
