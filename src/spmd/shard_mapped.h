// SPDX-License-Identifier: Apache-2.0
// Operations under shard_map (core/graph_description.h): every device applies
// the operation to its own shards as though they were all there is.
//
// Nothing is chosen here. What the code of a device does with its shards is
// what is to be found out, right or wrong, so the only demands are that shards
// have shapes that the operation takes, and give the shape that the out spec
// says. Rows that do not divide are cut as `size // devices` cuts them: the
// last ones are on no device.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/diagnostic.h"
#include "core/mesh.h"
#include "graph/graph.h"
#include "spmd/layout.h"

namespace shardplan {

// The layout in which operand `index` is brought to the operation. A dimension
// that does not divide stays whole there, and is cut by the operation itself
// (sim/execute.h). REQUIRES, here and below: the node has a shard_map.
Layout mapped_operand(const Graph& graph, const Mesh& mesh,
                      const GraphNode& node, size_t index);
// The layout of what the devices leave; sums over `psum` are not taken yet.
Layout mapped_result(const Graph& graph, const Mesh& mesh,
                     const GraphNode& node);
// The axes that in_specs give to every factor, also where they do not divide.
FactorAxes mapped_axes(const Mesh& mesh, const GraphNode& node);

// Attributes as a device has them: of `slice`, rows of the whole become the
// same part of its own. `local`: shapes of its operands. Empty where the part
// is not a whole number of rows.
std::optional<Attributes> mapped_attributes(const GraphNode& node,
                                            std::span<const Shape> local);

// Whether every shard_map of the graph can be run on the mesh; else SP015, or
// SP201 for an axis that neither the mesh has nor `declared` names. Rows that
// are on no device are SP203.
bool check_shard_maps(const Graph& graph, const Mesh& mesh,
                      const AxisNames& declared, Diagnostics& diags);

}  // namespace shardplan
