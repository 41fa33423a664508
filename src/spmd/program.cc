// SPDX-License-Identifier: Apache-2.0
// Answers questions about instructions, in the axes that users know.
#include "spmd/program.h"

#include <algorithm>

#include "base/words.h"
#include "core/views.h"

namespace shardplan {
namespace {

bool is_of_experts(const Graph& graph, NodeId node) {
  return std::ranges::any_of(graph.regions, [&](const Region& region) {
    return region.kind == Region::Kind::Experts && contains(region.nodes, node);
  });
}

}  // namespace

std::vector<int> permute_sources(const Program& program,
                                 const Instruction& permute) {
  if (!permute.sources.empty()) return permute.sources;
  return permute_sources(program.mesh,
                         program.registers[permute.operands[0]].layout,
                         program.registers[permute.result].layout);
}

AxisNames reported_axes(const Program& program, const AxisNames& axes,
                        NodeId node) {
  const std::vector<MeshView>& views = program.mesh.views();
  if (views.empty()) return axes;
  // Experts are sharded in a view of their own, everything else on the mesh
  // itself.
  const bool of_experts =
      views.size() > 1 && node && is_of_experts(*program.graph, node);
  return joined_axes(program.mesh, axes, views[of_experts ? 1 : 0].name);
}

Layout reported_layout(const Program& program, Layout layout, ValueId value) {
  if (program.mesh.views().empty()) return layout;
  const Graph& graph = *program.graph;
  NodeId node = graph.values[value].node;
  for (const NodeId n : graph.nodes.ids()) {
    if (node) break;
    if (contains(graph.nodes[n].operands, value)) node = n;
  }
  for (AxisNames& axes : layout.spec.dims) {
    axes = reported_axes(program, axes, node);
  }
  layout.partial = reported_axes(program, layout.partial, node);
  return layout;
}

}  // namespace shardplan
